// Batch norm in one launch: which images it takes. Its result has the bits of batch_norm_apply() with the same mean and
// variance.
#include "bytetape/bytetape.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/cuda/norm/batch_norm.h"
#include "bytetape/cuda/runtime/overlap.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct CudaDriverHeldBatchNorm : GpuTest {
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && !cuda::can_overlap(gpu)) GTEST_SKIP() << "this GPU has no clusters";
  }
  Tensor random(const Shape& shape, DType dtype) const { return to(random_tensor(shape, dtype), gpu); }
};

// Backward recomputes the result from mean and var, so it must have the bits of forward.
TEST_F(CudaDriverHeldBatchNorm, ResultHasTheBitsOfBatchNormApply) {
  const NoGrad no_grad;
  const Shape shapes[] = {{3, 8, 2, 1}, {40, 64, 6, 6}, {128, 512, 4, 4}, {33, 256, 7, 7}};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Shape& shape : shapes)
      for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu_tanh})
        for (const bool has_residual : {false, true})
          for (const bool is_affine : {false, true}) {
            if (has_residual && activation == Activation::gelu_tanh) continue;
            SCOPED_TRACE(detail::concat(dtype, " ", shape, ", activation ", static_cast<int>(activation),
                                        has_residual ? ", residual" : "", is_affine ? ", affine" : ""));
            const auto image = [&] { return channels_last(random(shape, dtype)); };
            const Tensor x = image(), residual = has_residual ? image() : Tensor(), y = empty_like(x),
                         again = empty_like(x);
            const Tensor weight = is_affine ? random({shape[1]}, dtype) : Tensor(),
                         bias = is_affine ? random({shape[1]}, DType::f32) : Tensor();
            const Tensor mean = empty({shape[1]}, DType::f32, gpu), var = empty_like(mean);
            const auto read = [](const Tensor& t) { return t.defined() ? t.read() : ConstView(); };
            BatchNormApplyArgs result{x.read(),       read(weight), read(bias), mean.read(), var.read(),
                                      read(residual), 1e-5,         activation, y.write()};
            ASSERT_TRUE(cuda::train_at_once({{x.read(), mean.write(), var.write(), 0.1, {}, {}, {}}, result}));
            result.y = again.write();
            bytetape::run<&BatchNormKernels::batch_norm_apply>(gpu, result);
            ASSERT_EQ(y.to_vector<double>(), again.to_vector<double>());
          }
}

TEST_F(CudaDriverHeldBatchNorm, TakesSmallAlignedImagesOfOneLayout) {
  const NoGrad no_grad;
  const auto is_held = [&](const Tensor& x, const Tensor& y) {
    const Tensor mean = empty({x.size(1)}, x.dtype() == DType::f64 ? DType::f64 : DType::f32, gpu),
                 var = empty_like(mean);
    const bool forward =
        cuda::train_at_once({{x.read(), mean.write(), var.write(), 0.1, {}, {}, {}},
                             {x.read(), {}, {}, mean.read(), var.read(), {}, 1e-5, Activation::none, y.write()}});
    const bool backward = cuda::gradients_at_once({.x = x.read(),
                                                   .mean = mean.read(),
                                                   .var = var.read(),
                                                   .gy = x.read(),
                                                   .eps = 1e-5,
                                                   .training = true,
                                                   .activation = Activation::none,
                                                   .gx = y.write()});
    EXPECT_EQ(forward, backward);
    return forward;
  };
  const auto image = [&](const Shape& shape, DType dtype = DType::bf16) { return channels_last(random(shape, dtype)); };
  const Tensor x = image({8, 64, 6, 6}), wide = image({8, 128, 6, 6});
  EXPECT_TRUE(is_held(x, empty_like(x)));
  EXPECT_TRUE(is_held(narrow(wide, 1, 64, 64), narrow(empty_like(wide), 1, 0, 64))) << "slices of channels";
  EXPECT_FALSE(is_held(narrow(wide, 1, 64, 64), empty_like(x))) << "another layout";
  EXPECT_FALSE(is_held(narrow(wide, 1, 4, 64), narrow(empty_like(wide), 1, 4, 64))) << "not aligned";
  EXPECT_FALSE(is_held(contiguous(x), contiguous(x))) << "row-major";
  EXPECT_FALSE(is_held(image({8, 64, 6, 6}, DType::f64), image({8, 64, 6, 6}, DType::f64))) << "f64";
  const Tensor large = image({9, 64, 31, 31}), pixel = image({64, 64, 1, 1});
  EXPECT_FALSE(is_held(large, empty_like(large)));
  EXPECT_TRUE(is_held(pixel, empty_like(pixel)));
}

}  // namespace
}  // namespace bytetape::test
