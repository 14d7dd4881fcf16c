// The loss of 16-bit logits, whose exponentials are the GPU's own.
#include <cmath>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaLinearCrossEntropy : public GpuTest {};

/// The loss of class 0 in f32, if logits are as given and have 16 bits.
double loss_of(const std::vector<double>& logits, DType dtype) {
  const Autocast autocast(dtype);
  const auto classes = static_cast<std::int64_t>(logits.size());
  const Tensor x = ones({1, 1}, DType::f32, gpu), weight = to(to(from_vector(logits, {classes, 1}), DType::f32), gpu);
  return linear_cross_entropy(x, weight, to(from_vector(std::vector<std::int64_t>{0}), gpu)).item<double>();
}

TEST_F(CudaLinearCrossEntropy, IsZeroForAClassThatDominates) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const double top : {1.40625, 1.4375, 1.5078125, 32.0, 99.0, 45504.0}) {
      SCOPED_TRACE(detail::concat(dtype, " ", top));
      EXPECT_EQ(loss_of({top, -120, -120}, dtype), 0);
    }
}

TEST_F(CudaLinearCrossEntropy, TakesTheLargestLogits) {
  const double largest = 3.3895e38;  // of bf16
  EXPECT_EQ(loss_of({largest, 0, 0}, DType::bf16), 0);
  EXPECT_NEAR(loss_of({-largest, -largest, -largest}, DType::bf16), std::log(3), 1e-6);
}

/// The gradients of x and weight in f64.
std::vector<Tensor> exact_gradients(const Tensor& x, const Tensor& weight, const Tensor& target) {
  const Tensor wide_x = to(x, DType::f64).set_requires_grad(), wide = to(weight, DType::f64).set_requires_grad();
  cross_entropy(linear(wide_x, wide), target).backward();
  return {wide_x.grad(), wide.grad()};
}

struct Sizes {
  std::int64_t rows, features, classes;
};
// 50,257 is GPT-2's vocabulary: rows of logits then need padding, and the weight of a large product too.
TEST_F(CudaLinearCrossEntropy, IsThatOfItsLogits) {
  for (const auto& [rows, features, classes] :
       {Sizes{9, 16, 3}, {9, 16, 1000}, {9, 16, 50257}, {9, 16, 50304}, {700, 512, 50257}, {700, 512, 50303}}) {
    SCOPED_TRACE(detail::concat(rows, "x", features, "x", classes));
    // Logits have the same magnitude for any number of features, and so the same rounding.
    const double scale = 4 / std::sqrt(static_cast<double>(features));
    const Tensor x = to(random_tensor({rows, features}, DType::bf16) * scale, gpu),
                 weight = to(random_tensor({classes, features}, DType::bf16), gpu),
                 target = to(randint(0, classes, {rows}), gpu);
    const double expected = cross_entropy(to(linear(x, weight), DType::f64), target).item<double>();
    const std::vector<Tensor> exact = exact_gradients(x, weight, target);
    const Tensor wide_x = to(x, DType::f32).set_requires_grad(), wide = to(weight, DType::f32).set_requires_grad();
    const Autocast autocast(DType::bf16);
    const Tensor loss = linear_cross_entropy(wide_x, wide, target, {.chunks = 2});
    loss.backward();
    const double rounding = features > 16 ? 1e-4 : 1e-6;  // a long sum has another order
    EXPECT_NEAR(loss.item<double>(), expected, rounding * expected);
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor& leaf = i == 0 ? wide_x : wide;
      const double error = norm(to(leaf.grad(), DType::f64) - exact[i]).item<double>();
      EXPECT_LT(error, 0.01 * norm(exact[i]).item<double>()) << "input " << i;
    }
  }
}

TEST_F(CudaLinearCrossEntropy, AnIgnoredRowThatIsNotFiniteHasNoGradient) {
  for (const std::int64_t classes : {50257, 50304}) {  // with and without rows behind the weight's
    SCOPED_TRACE(classes);
    const Tensor x = to(random_tensor({700, 512}, DType::bf16), gpu), target = to(randint(0, classes, {700}), gpu);
    x[3] = INFINITY;
    target[3] = -100;
    const Tensor leaf = x.detach().set_requires_grad();
    linear_cross_entropy(leaf, to(random_tensor({classes, 512}, DType::bf16), gpu), target).backward();
    EXPECT_EQ(leaf.grad()[3].to_vector<double>(), std::vector<double>(512, 0));
    EXPECT_TRUE(all(isfinite(leaf.grad())).item<bool>());
  }
}

}  // namespace
}  // namespace bytetape::test
