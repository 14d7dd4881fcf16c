#include "bytetape/core/device/overlap.h"

#include <set>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_tensor;

std::set<std::int64_t> elements(const Tensor& x) {
  std::set<std::int64_t> places{x.storage_offset()};
  if (x.numel() == 0) return {};
  for (int d = 0; d < x.rank(); ++d) {
    std::set<std::int64_t> grown;
    for (const std::int64_t place : places)
      for (std::int64_t i = 0; i < x.shape()[d]; ++i) grown.insert(place + i * x.strides()[d]);
    places = std::move(grown);
  }
  return places;
}

bool meet(const Tensor& x, const Tensor& y) {
  const std::set<std::int64_t> of_y = elements(y);
  for (const std::int64_t place : elements(x))
    if (of_y.contains(place)) return true;
  return false;
}

// A view of x by a few random steps.
Tensor random_view(Tensor x) {
  const auto below = [](std::int64_t n) { return randint(0, n, {}).item<std::int64_t>(); };
  for (int step = 0; step < 4; ++step) {
    const auto dim = static_cast<int>(below(x.rank()));
    const std::int64_t n = x.size(dim);
    switch (below(4)) {
      case 0:
        if (x.rank() > 1) x = select(x, dim, below(n));
        break;
      case 1:
        x = transpose(x, 0, dim);
        break;
      default:
        const std::int64_t start = below(n);
        x = narrow(x, dim, start, 1 + below(n - start));
    }
  }
  return x;
}

TEST(Overlap, IsFoundAsByComparingEveryElement) {
  const Tensor x = random_tensor({4, 3, 5, 2});
  int met = 0;
  for (int i = 0; i < 2000; ++i) {
    const Tensor a = random_view(x), b = random_view(x);
    if (a.shape() == b.shape() && elements(a) == elements(b)) continue;  // may be one view, which is fine
    EXPECT_EQ(overlaps(a, b), meet(a, b)) << describe(a) << a.strides() << describe(b) << b.strides();
    met += meet(a, b);
  }
  EXPECT_GT(met, 200);
  EXPECT_LT(met, 1800);
}

TEST(Overlap, OneViewIsNoOverlapAndAnotherOrderIs) {
  const Tensor x = random_tensor({3, 3});
  EXPECT_FALSE(overlaps(x, view(x, {3, 3})));
  EXPECT_TRUE(overlaps(x, transpose(x, 0, 1)));
  EXPECT_FALSE(overlaps(x, clone(x)));
  EXPECT_FALSE(overlaps(narrow(x, 0, 0, 0), x));
  EXPECT_FALSE(overlaps(x, narrow(x, 0, 0, 0)));
  EXPECT_FALSE(overlaps(narrow(x, 0, 1, 0), x)) << "nothing lies in the midst of it";
  EXPECT_FALSE(overlaps(x, narrow(x, 0, 1, 0)));
  const Tensor row = narrow(x, 0, 1, 1);
  EXPECT_FALSE(overlaps(row, row.alias({1, 3}, {7, 1}, 3))) << "a dim of one element has any stride";
  EXPECT_TRUE(overlaps(x, expand(row, {3, 3})));
  EXPECT_FALSE(overlaps(narrow(x, 0, 2, 1), expand(row, {3, 3})));
  EXPECT_TRUE(overlaps_itself(expand(narrow(x, 0, 0, 1), {3, 3})));
  EXPECT_FALSE(overlaps_itself(transpose(x, 0, 1)));
  EXPECT_FALSE(overlaps_itself(x.alias({1, 3}, {0, 1}, 0))) << "a dim of one element has any stride";
  EXPECT_FALSE(overlaps_itself(x.alias({0, 3}, {1, 0}, 0))) << "nothing shares no memory";
}

// Their elements are at even and at odd places, which only comparing them one by one would tell.
TEST(Overlap, OfStridesThatTakeLongToCompareIsAssumed) {
  const Tensor x = random_tensor({80000});
  const Shape shape{9, 9, 9, 9, 9, 9};
  const Strides strides{1000, 1002, 1006, 1012, 1018, 1022};
  EXPECT_TRUE(overlaps(x.alias(shape, strides, 0), x.alias(shape, strides, 1)));
  EXPECT_FALSE(overlaps(x.alias({9, 9}, {1000, 1002}, 0), x.alias({9, 9}, {1000, 1002}, 1)));
}

TEST(Overlap, StopsAWriteOverWhatIsBeingRead) {
  const Tensor x = random_tensor({4, 6});
  Tensor right = narrow(x, 1, 2, 3), even = select(view(x, {4, 3, 2}), 2, 0);
  EXPECT_THROWS_SAYING(right += narrow(x, 1, 1, 3), ValueError,
                       "add_: cannot write into f64(4, 3) on cpu while reading f64(4, 3) on cpu, which lies over it");
  const Tensor odd = select(view(x, {4, 3, 2}), 2, 1), expected = even + odd;
  even += odd;
  EXPECT_TRUE(test::all_close(even, expected));
}

}  // namespace
}  // namespace bytetape
