// What index_select and its gradient do on a GPU beyond the op list: many indices, and those that are none.
#include "bytetape/autograd/ops/indexing.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using Indices = std::vector<std::int64_t>;

class CudaIndexing : public GpuTest {
 protected:
  void TearDown() override {
    if (IsSkipped()) return;
    try {
      synchronize(gpu);  // what a failed test left is not the next one's
    } catch (const ValueError&) {}
  }
};

// As in an embedding: slices of words and of single elements, of which most come several times and one most often.
TEST_F(CudaIndexing, GradientsAreTheCpusAndRepeat) {
  for (const std::int64_t width : {1, 7, 64}) {
    SCOPED_TRACE(width);
    constexpr std::int64_t slices = 1000, count = 20'000;
    Indices values(count);
    for (std::int64_t j = 0; j < count; ++j) values[static_cast<std::size_t>(j)] = j % 3 ? j * j % slices : 7;
    const Tensor weight = random_tensor({slices, width}), gy = random_tensor({count, width});
    const auto evaluate = [&](Device device) {
      const Tensor x = clone(to(weight, device)).set_requires_grad();
      const Tensor y = index_select(x, 0, from_vector(values, count, device));
      y.backward(to(gy, device));
      return std::pair{y.detach(), x.grad()};
    };
    const auto [y, gradient] = evaluate(gpu);
    const auto [expected, expected_gradient] = evaluate(Device::cpu());
    EXPECT_EQ(y.to_vector<double>(), expected.to_vector<double>());
    EXPECT_TRUE(all_close(gradient, expected_gradient, 1e-12, 1e-11));
    EXPECT_EQ(gradient.to_vector<double>(), evaluate(gpu).second.to_vector<double>());
  }
}

TEST_F(CudaIndexing, SelectsByTensorsThatCountFromTheEnd) {
  const Tensor x = random_tensor({70, 3, 90}), rows = randint(-70, 70, {500, 1}), columns = randint(-90, 90, {1, 300});
  const auto evaluate = [&](Device device) {
    const Tensor leaf = clone(to(x, device)).set_requires_grad();
    const Tensor y = index(leaf, {to(rows, device), Slice(1, None), to(columns, device)});
    EXPECT_EQ(y.shape(), (Shape{500, 300, 2}));
    sum(y * y).backward();
    return std::pair{y.detach(), leaf.grad()};
  };
  const auto [y, gradient] = evaluate(gpu);
  const auto [expected, expected_gradient] = evaluate(Device::cpu());
  EXPECT_EQ(y.to_vector<double>(), expected.to_vector<double>());
  EXPECT_TRUE(all_close(gradient, expected_gradient, 1e-12, 1e-11));
  EXPECT_EQ(gradient.to_vector<double>(), evaluate(gpu).second.to_vector<double>());
}

TEST_F(CudaIndexing, ByTensorsInACapturedStepEqualsPlain) {
  const Tensor x = to(random_tensor({9, 8}), gpu), rows = to(randint(-9, 9, {50}), gpu),
               columns = to(randint(-8, 8, {50}), gpu);
  const auto expected = index(x, {rows, columns}).to_vector<double>();
  auto step = capture([&](const Tensor& i, const Tensor& j) { return index(x, {i, j}); });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(rows, columns).to_vector<double>(), expected) << i;
}

TEST_F(CudaIndexing, AMaskIsReadByTheHost) {
  const Tensor x = random_tensor({300, 70}), mask = random_tensor({300}) > 0;
  const auto evaluate = [&](Device device) {
    const Tensor leaf = clone(to(x, device)).set_requires_grad();
    const Tensor y = index(leaf, {to(mask, device), Slice(1, None, 3)});
    sum(y * y).backward();
    return std::pair{y.to_vector<double>(), leaf.grad().to_vector<double>()};
  };
  EXPECT_EQ(evaluate(gpu), evaluate(Device::cpu()));
  const Tensor on_gpu = to(x, gpu), here = to(mask, gpu);
  auto step = capture([&](const Tensor& m) { return index(on_gpu, {m}); });
  step(here), step(here);
  EXPECT_THROW(step(here), CaptureError);
}

// The run of a token that comes most often is divided among threads.
TEST_F(CudaIndexing, OneRowWithAllPlacesIsSummedInAFixedOrder) {
  constexpr std::int64_t places = 16'384, width = 96;
  for (const std::int64_t others : {0, 3}) {
    Indices values(places, 5);
    for (std::int64_t i = 0; i < others; ++i) values[static_cast<std::size_t>(5000 * i + 7)] = i;
    const Tensor gy = random_tensor({places, width}, DType::f32);
    const auto gradient_on = [&](Device device) {
      const Tensor weight = zeros({8, width}, DType::f32, device).set_requires_grad();
      embedding(from_vector(values, places, device), weight).backward(to(gy, device));
      return weight.grad();
    };
    const Tensor gradient = gradient_on(gpu);
    EXPECT_TRUE(all_close(gradient, gradient_on(Device::cpu()), 1e-5, 1e-3));
    EXPECT_EQ(gradient.to_vector<float>(), gradient_on(gpu).to_vector<float>());
  }
}

// Lines that are compared and lines that are sorted, in place or not, with many repeats or none.
TEST_F(CudaIndexing, ScattersAreTheCpus) {
  for (const auto& [lines, length] :
       {std::pair<std::int64_t, std::int64_t>{1, 40'000}, {700, 32}, {700, 33}, {5000, 1}})
    for (const std::int64_t size : {1, 40, 3000}) {
      SCOPED_TRACE(detail::concat(lines, " lines of ", length, " into ", size));
      const Tensor x = random_tensor({lines, size}), src = random_tensor({lines, length}),
                   index = randint(0, size, {lines, length});
      const auto evaluate = [&](Device device) {
        const Tensor a = to(x, device), s = to(src, device), i = to(index, device);
        const Tensor sums = clone(a), values = clone(a);
        scatter_add_(sums, 1, i, s);
        scatter_(values, 1, i, s);
        return std::vector{scatter_add(a, 1, i, s), scatter(a, 1, i, s), sums, values, gather(a, 1, i)};
      };
      const std::vector<Tensor> got = evaluate(gpu), again = evaluate(gpu), expected = evaluate(Device::cpu());
      for (std::size_t k = 0; k < got.size(); ++k) {
        EXPECT_TRUE(all_close(got[k], expected[k], 1e-12, 1e-10)) << k;
        EXPECT_EQ(got[k].to_vector<double>(), again[k].to_vector<double>()) << k;
      }
    }
}

TEST_F(CudaIndexing, AFaultInPlaceChangesNothing) {
  const Tensor index = from_vector(Indices{1, 0, 3, 9}, {4, 1}, gpu), flat = reshape(index, 4),
               src = ones({4, 1}, DType::f32, gpu), x = zeros({3, 1}, DType::f32, gpu);
  const auto expect_fault = [&](const std::string& op) {
    EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, op + ": index 3 is not in [0, 3)");
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(3, 0));
  };
  scatter_(x, 0, index, src);
  expect_fault("scatter_");
  scatter_add_(x, 0, index, src);
  expect_fault("scatter_add_");
  index_copy_(x, 0, flat, src);
  expect_fault("index_copy_");
  index_add_(x, 0, flat, src);
  expect_fault("index_add_");
  scatter_(zeros({0, 1}, DType::f32, gpu), 0, index, src);
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "scatter_: index 1 is not in [0, 0)");
}

TEST_F(CudaIndexing, LeavesAFaultInTheWordsOfTheCpu) {
  const Tensor index = from_vector(Indices{1, 0, -2, 9}, 4, gpu);
  const Tensor x = ones({3, 2}, DType::f32, gpu).set_requires_grad();
  const Tensor y = index_select(x, 0, index);
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "index_select: index -2 is not in [0, 3)");
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}));
  y.backward(ones_like(y));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1, 1, 1, 0, 0}));
  index_select(ones({3, 0}, DType::f32, gpu), 0, index);
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "index_select: index -2 is not in [0, 3)");
  const Tensor gathered = gather(x, 0, reshape(index, {2, 2}));
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "gather: index -2 is not in [0, 3)");
  EXPECT_EQ(gathered.to_vector<float>(), (std::vector<float>{1, 1, 0, 0}));
  for (const Device device : {Device::cpu(), gpu})
    EXPECT_THROWS_SAYING(
        bytetape::index(to(x, device), {to(index, device), zeros({4}, DType::i64, device)}).to_vector<float>(),
        ValueError, "index 9 is not in [-3, 3)");
  one_hot(index, 3);
  EXPECT_THROWS_SAYING(synchronize(gpu), ValueError, "one_hot: index -2 is not in [0, 3)");
}

}  // namespace
}  // namespace bytetape::test
