// Layer normalisation of a sum is its parts, however long its rows are.
#include "bytetape/autograd/ops/norm/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaAddLayerNorm : public GpuTest, public testing::WithParamInterface<DType> {
 protected:
  static Tensor leaf(const Shape& shape, DType dtype) {
    return to(random_tensor(shape, dtype), gpu).set_requires_grad();
  }
  /// Within a rounding or two of the largest.
  static testing::AssertionResult close(const Tensor& actual, const Tensor& expected) {
    const DType dtype = expected.dtype();
    double largest = 1;
    for (const double v : expected.to_vector<double>()) largest = std::max(largest, std::abs(v));
    const double relative = dtype == DType::f64   ? 1e-13
                            : dtype == DType::f32 ? 1e-5
                            : dtype == DType::f16 ? 1e-3
                                                  : 8e-3;
    return all_close(actual, expected, 0, relative * largest);
  }
};

// Rows of a part of a warp, of a warp, of several, and too long to be held; vectors and single elements.
TEST_P(CudaAddLayerNorm, IsItsParts) {
  const DType dtype = GetParam();
  for (const Shape& shape : {Shape{1, 3}, Shape{300, 64}, Shape{37, 256}, Shape{300, 768}, Shape{9, 1021},
                             Shape{20, 4096}, Shape{5, 8192}, Shape{3, 9001}, Shape{4, 16384}}) {
    SCOPED_TRACE(detail::concat(shape));
    const std::int64_t n = shape[1];
    const Tensor x = leaf(shape, dtype), residual = leaf(shape, dtype), weight = leaf({n}, accumulated(dtype)),
                 bias = leaf({n}, accumulated(dtype)), gy = leaf(shape, dtype).detach();
    const AddLayerNorm one = add_layer_norm(x, residual, n, weight, bias);
    const Tensor sum = x + residual, y = layer_norm(sum, n, weight, bias);
    EXPECT_EQ(one.sum.to_vector<double>(), sum.to_vector<double>());
    EXPECT_TRUE(close(one.y, y));
    const std::vector<Tensor> inputs{x, residual, weight, bias};
    const auto gradients = [&](const Tensor& of_y, const Tensor& of_sum) {
      return grad({of_y, of_sum}, inputs, {.seeds = {gy, gy * 0.5}, .retain_graph = true});
    };
    const auto got = gradients(one.y, one.sum), again = gradients(one.y, one.sum), expected = gradients(y, sum);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      SCOPED_TRACE(detail::concat("gradient ", i));
      EXPECT_TRUE(close(got[i], expected[i]));
      EXPECT_EQ(got[i].to_vector<double>(), again[i].to_vector<double>());
    }
  }
}

// Without gradients, the kernel reads a 16-bit weight and bias itself.
TEST_P(CudaAddLayerNorm, ReadsCoefficientsOfItsDtype) {
  const NoGrad no_grad;
  const DType dtype = GetParam();
  const auto there = [&](const Shape& shape) { return to(random_tensor(shape, dtype), gpu); };
  const auto wide = [&](const Tensor& v) { return v.defined() ? to(v, accumulated(dtype)) : v; };
  for (const Shape& shape : {Shape{1, 768}, Shape{300, 64}, Shape{9, 1021}, Shape{20, 4096}, Shape{3, 9001}}) {
    SCOPED_TRACE(detail::concat(shape));
    const std::int64_t n = shape[1];
    const Tensor x = there(shape), residual = there(shape), w = there({n}), b = there({n}), none;
    for (const auto& [weight, bias] : {std::pair{w, b}, {w, none}, {none, b}, {none, none}}) {
      EXPECT_EQ(layer_norm(x, n, weight, bias).to_vector<double>(),
                layer_norm(x, n, wide(weight), wide(bias)).to_vector<double>());
      EXPECT_EQ(add_layer_norm(x, residual, n, weight, bias).y.to_vector<double>(),
                add_layer_norm(x, residual, n, wide(weight), wide(bias)).y.to_vector<double>());
    }
    EXPECT_EQ(layer_norm(x, n, w, wide(b)).to_vector<double>(), layer_norm(x, n, w, b).to_vector<double>());
    EXPECT_EQ(rms_norm(x, n, w).to_vector<double>(), rms_norm(x, n, wide(w)).to_vector<double>());
    const Tensor odd = narrow(there({n + 1}), 0, 1, n);  // one element in
    EXPECT_EQ(layer_norm(x, n, odd, odd).to_vector<double>(),
              layer_norm(x, n, wide(odd), wide(odd)).to_vector<double>());
  }
}

class CudaMixedLayerNorm : public CudaAddLayerNorm {};

TEST_P(CudaMixedLayerNorm, KeepsABranchIn16Bits) {
  const DType low = GetParam();
  for (const Shape& shape : {Shape{1, 3}, Shape{300, 64}, Shape{37, 256}, Shape{300, 768}, Shape{9, 1021},
                             Shape{5, 8192}, Shape{3, 9001}, Shape{4, 16384}}) {
    SCOPED_TRACE(detail::concat(shape));
    const std::int64_t n = shape[1];
    const Tensor x = leaf(shape, low), residual = leaf(shape, DType::f32), weight = leaf({n}, DType::f32),
                 bias = leaf({n}, DType::f32), gy = leaf(shape, low).detach(), gsum = leaf(shape, DType::f32).detach(),
                 wide_x = to(x.detach(), DType::f32).set_requires_grad(), wide_gy = to(gy, DType::f32);
    const AddLayerNorm wide = add_layer_norm(wide_x, residual, n, weight, bias);
    const Autocast autocast(low);
    const AddLayerNorm made = add_layer_norm(x, residual, n, weight, bias);
    EXPECT_EQ(made.y.to_vector<float>(), to(wide.y, low).to_vector<float>());
    EXPECT_EQ(made.sum.to_vector<float>(), wide.sum.to_vector<float>());
    const auto got = grad({made.y, made.sum}, {x, residual, weight, bias}, {.seeds = {gy, gsum}}),
               wanted = grad({wide.y, wide.sum}, {wide_x, residual, weight, bias}, {.seeds = {wide_gy, gsum}});
    EXPECT_EQ(got[0].to_vector<float>(), to(wanted[0], low).to_vector<float>());
    for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(got[i].to_vector<float>(), wanted[i].to_vector<float>()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaMixedLayerNorm, testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return to_string(info.param); });
INSTANTIATE_TEST_SUITE_P(DTypes, CudaAddLayerNorm, testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace bytetape::test
