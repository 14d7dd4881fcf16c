#include "bytetape/autograd/ops/softmax.h"

#include <cmath>
#include <limits>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/parallel.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;

// exp(x) / sum(exp(x)) over `dim` of a rank-3 tensor, by loops in f64.
std::vector<double> reference(const Tensor& x, int dim) {
  const auto v = x.to_vector<double>();
  const Strides steps = contiguous_strides(x.shape());
  std::vector<double> sums(v.size(), 0), y(v.size());
  const auto first = [&](std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return static_cast<std::size_t>(at - at / steps[dim] % x.shape()[dim] * steps[dim]);
  };
  for (std::size_t i = 0; i < v.size(); ++i) sums[first(i)] += std::exp(v[i]);
  for (std::size_t i = 0; i < v.size(); ++i) y[i] = std::exp(v[i]) / sums[first(i)];
  return y;
}

TEST(Softmax, AgreesWithLoopsAlongAnyDim) {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 1000, 3}, Shape{5, 1, 257}, Shape{16, 10, 1}})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (int dim = 0; dim < 3; ++dim) {
        SCOPED_TRACE(detail::concat(shape, dtype, " dim ", dim));
        const double tolerance = size_of(dtype) == 2 ? 1e-2 : dtype == DType::f32 ? 2e-6 : 1e-13;
        const Tensor x = random_tensor(shape, dtype), y = softmax(x, dim), l = log_softmax(x, dim - 3);
        EXPECT_EQ(y.dtype(), dtype);
        auto expected = reference(x, dim);
        EXPECT_TRUE(all_close(y.to_vector<double>(), expected, tolerance, 1e-7));
        for (double& e : expected) e = std::log(e);
        EXPECT_TRUE(all_close(l.to_vector<double>(), expected, tolerance, tolerance));
      }
}

TEST(Softmax, TakesStridedInputs) {
  const Tensor x = random_tensor({6, 5, 4});
  const Tensor t = transpose(x, 0, 2);
  for (int dim = 0; dim < 3; ++dim) {
    EXPECT_TRUE(all_close(softmax(t, dim).to_vector<double>(), reference(contiguous(t), dim)));
    EXPECT_TRUE(all_close(log_softmax(t, dim), log(softmax(t, dim)), 1e-12, 1e-12));
  }
}

TEST(Softmax, NeitherOverflowsNorLeaksThroughMasks) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = make_tensor({3e4, 3e4, -inf, 1e4, -inf, -3e4}, {2, 3}, dtype);
    EXPECT_TRUE(all_close(softmax(x, 1).to_vector<double>(), {0.5, 0.5, 0, 1, 0, 0}, 0, 0));
    EXPECT_EQ(log_softmax(x, 1).to_vector<double>()[4], -inf);
    const auto bad = softmax(make_tensor({1, std::nan(""), 2, 0, 1, 2}, {2, 3}, dtype), 1).to_vector<double>();
    EXPECT_TRUE(std::isnan(bad[0]) && std::isnan(bad[1]) && std::isnan(bad[2]) && !std::isnan(bad[3]));
  }
}

TEST(Softmax, HasEdges) {
  EXPECT_EQ(softmax(random_tensor({}), 0).item<double>(), 1);
  EXPECT_EQ(softmax(random_tensor({0, 3}), 1).shape(), (Shape{0, 3}));
  EXPECT_EQ(log_softmax(random_tensor({3, 0}), 1).shape(), (Shape{3, 0}));
  EXPECT_THROWS_SAYING(softmax(random_tensor({2, 3}), 2), ShapeError, "softmax: dim 2 is out of range");
  EXPECT_THROWS_SAYING(log_softmax(random_tensor({2}, DType::i64), 0), DTypeError,
                       "log_softmax: expected a floating dtype, got i64(2,) on cpu");
}

TEST(Softmax, GradientsAreThoseOfTheFormula) {
  for (int dim = 0; dim < 2; ++dim) {
    Tensor x = random_leaf({4, 6});
    const Tensor seed = random_tensor({4, 6}), p = softmax(x.detach(), dim);
    softmax(x, dim).backward(seed);
    EXPECT_TRUE(all_close(x.grad(), p * (seed - sum(p * seed, {dim}, true))));
    x.set_grad({});
    log_softmax(x, dim).backward(seed);
    EXPECT_TRUE(all_close(x.grad(), seed - p * sum(seed, {dim}, true)));
  }
}

// The second derivative of the fused rule against that of the same function made of small ops.
TEST(Softmax, DoubleBackwardAgreesWithTheComposition) {
  Tensor x = random_leaf({3, 5});
  const Tensor a = random_tensor({3, 5}), b = random_tensor({3, 5});
  const auto second = [&](const Tensor& y) {
    GradOptions keep;
    keep.seeds = {a};
    keep.create_graph = true;
    const Tensor g = grad({y}, {x}, keep)[0];
    return grad({g}, {x}, {.seeds = {b}})[0];
  };
  const auto parts = [&] { return exp(x) / sum(exp(x), {1}, true); };
  EXPECT_TRUE(all_close(second(softmax(x, 1)), second(parts()), 1e-10, 1e-12));
  EXPECT_TRUE(all_close(second(log_softmax(x, 1)), second(log(parts())), 1e-10, 1e-12));
}

TEST(Softmax, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  const Tensor x = random_tensor({300, 1000}, DType::f32);
  set_num_threads(1);
  const auto one = softmax(x, 1).to_vector<float>();
  set_num_threads(3);
  EXPECT_EQ(one, softmax(x, 1).to_vector<float>());
  set_num_threads(before);
}

}  // namespace
}  // namespace bytetape
