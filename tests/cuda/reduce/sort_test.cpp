// A GPU sorts, selects and draws as the CPU does, in each of its ways.
#include "bytetape/autograd/ops/sort.h"

#include <cmath>
#include <limits>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaSort : public GpuTest, public testing::WithParamInterface<DType> {
 protected:
  /// Values with many ties. Floating ones have NaNs, infinities and zeros of both signs.
  static Tensor values(const Shape& shape) {
    const DType dtype = GetParam();
    if (dtype == DType::boolean) return randint(0, 2, shape, DType::boolean);
    if (!is_floating(dtype)) return randint(0, 200, shape, dtype);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::vector<double> drawn = random_tensor(shape).to_vector<double>();
    const double special[] = {NAN, -infinity, infinity, 0.0, -0.0};
    for (std::size_t i = 0; i < drawn.size(); ++i)
      drawn[i] = i % 7 < 5 && i % 11 == 0 ? special[i % 7] : std::round(drawn[i] * 100) / 8;
    return make_tensor(drawn, shape, dtype);
  }
};

// Rows in a block (several, one), selected, and sorted together.
TEST_P(CudaSort, IsTheCpus) {
  for (const Shape& shape : {Shape{5, 1}, Shape{1000, 7}, Shape{70, 64}, Shape{3, 2048}, Shape{3, 4096}, Shape{4, 5000},
                             Shape{1, 50'257}, Shape{3, 50'257}})
    for (const bool descending : {false, true})
      for (const std::int64_t k : {shape[1], std::int64_t{1}, std::int64_t{50}, std::int64_t{1024}, shape[1] / 2}) {
        if (k > shape[1]) continue;
        SCOPED_TRACE(detail::concat(shape, " ", k, descending));
        const Tensor x = values(shape), y = to(x, gpu);
        const ValuesAndIndices expected = topk(x, k, 1, descending), got = topk(y, k, 1, descending);
        EXPECT_EQ(got.indices.to_vector<std::int64_t>(), expected.indices.to_vector<std::int64_t>());
        const ValuesAndIndices columns = topk(transpose(y, 0, 1), k, 0, descending);
        EXPECT_EQ(contiguous(transpose(columns.indices, 0, 1)).to_vector<std::int64_t>(),
                  expected.indices.to_vector<std::int64_t>());
        const std::vector<double> a = got.values.to_vector<double>(), b = expected.values.to_vector<double>();
        for (std::size_t i = 0; i < a.size(); ++i)
          ASSERT_TRUE(std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]));
      }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaSort,
                         testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32,
                                         DType::u8, DType::boolean),
                         [](const auto& info) { return to_string(info.param); });

class CudaMultinomial : public GpuTest {};

TEST_F(CudaMultinomial, DrawsWhatTheCpuDraws) {
  const Tensor p = abs(random_tensor({20, 50'257}, DType::f32));
  for (const bool replacement : {false, true}) {
    const auto drawn = [&](const Tensor& p) {
      Generator generator(7);
      return multinomial(p, 64, replacement, generator).to_vector<std::int64_t>();
    };
    EXPECT_EQ(drawn(to(p, gpu)), drawn(p)) << replacement;
    EXPECT_EQ(drawn(to(p, gpu)), drawn(to(p, gpu))) << replacement;
  }
}

TEST_F(CudaMultinomial, DrawsAnewInEachReplay) {
  const Tensor p = ones(1000, DType::f32, gpu);
  for (const bool replacement : {false, true}) {
    Generator generator(3), twin(3);
    auto step = capture([&](const Tensor& p) { return multinomial(p, 5, replacement, generator); });
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(step(p).to_vector<std::int64_t>(), multinomial(p, 5, replacement, twin).to_vector<std::int64_t>()) << i;
  }
}

}  // namespace
}  // namespace bytetape::test
