// The weight's gradient of convolutions of many channels, which warpgroups of a Hopper GPU make as TF32.
#include "bytetape/cuda/conv/conv_warpgroup.h"

#include <cmath>
#include <limits>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/cuda/plans.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Problem {
  Shape x, weight;
  Conv2dParams params;
};
const Problem problems[] = {
    {{8, 64, 32, 32}, {64, 64, 3, 3}, {.padding = 1}},
    {{19, 64, 8, 8}, {128, 64, 3, 3}, {.padding = 1}},
    {{130, 32, 10, 26}, {64, 32, 3, 3}, {}},
    {{33, 96, 14, 6}, {192, 96, 3, 3}, {.padding = {0, 2}}},
    {{40, 256, 12, 4}, {128, 256, 3, 3}, {.padding = 1}},
};

Shape shape_of_y(const Problem& p) {
  const Device meta = Device::meta(Device::cuda());
  return conv2d(empty(p.x, DType::f32, meta), empty(p.weight, DType::f32, meta), {}, p.params).shape();
}
View view_of(const Shape& s) { return View(nullptr, DType::f32, Device::cuda(), s, channels_last_strides(s)); }
Conv2dWeightGradArgs args_of(const Problem& p) {
  return {view_of(p.x), view_of(shape_of_y(p)), view_of(p.weight), {}, p.params};
}

// Needs no GPU.
TEST(WarpgroupConv, EachShareHasTiles) {
  const AllowTf32 allow(true);
  for (const Problem& p : problems) {
    SCOPED_TRACE(detail::concat(p.x, p.weight));
    const Conv2dWeightGradArgs args = args_of(p);
    const Plan plan = cuda::conv_plans().conv2d_weight_grad.plan(args);
    ASSERT_EQ(plan.algorithm, cuda::conv_warpgroup);
    const cuda::WarpgroupConv d{ConvSizes(args)};
    EXPECT_EQ(d.image_tiles * d.rows * d.columns, d.oh * d.ow);
    EXPECT_GE(d.tiles / d.image_tiles * d.images, d.n);
    EXPECT_LE(d.shares, d.tiles);
    EXPECT_GE(plan.workspace, d.sum_bytes());
  }
}

struct CudaConvWarpgroup : GpuTest {
  const AllowTf32 allow{true};
};

Tensor on(Device device, DType dtype, const Tensor& x) { return channels_last(to(to(x.detach(), dtype), device)); }

Tensor weight_grad(const Problem& p, const Tensor& x, const Tensor& gy) {
  const Tensor w = channels_last(zeros(p.weight, x.dtype(), x.device())).set_requires_grad();
  return grad({conv2d(x, w, {}, p.params)}, {w}, {.seeds = {gy}})[0];
}

/// The error's size, by that of what is expected.
double error_of(const Tensor& actual, const Tensor& expected) {
  const std::vector<double> a = actual.to_vector<double>(), b = expected.to_vector<double>();
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(error / size);
}

TEST_F(CudaConvWarpgroup, AgreesWithTheCpuAndRepeats) {
  for (const Problem& p : problems) {
    SCOPED_TRACE(detail::concat(p.x, p.weight));
    const Tensor x = random_tensor(p.x, DType::f32), gy = random_tensor(shape_of_y(p), DType::f32);
    const auto made = [&] { return weight_grad(p, on(gpu, DType::f32, x), on(gpu, DType::f32, gy)); };
    const Tensor got = made();
    const Tensor expected = weight_grad(p, on(Device::cpu(), DType::f64, x), on(Device::cpu(), DType::f64, gy));
    EXPECT_LT(error_of(got, expected), 5e-4);  // TF32 has 10 bits
    for (int i = 0; i < 3; ++i) EXPECT_EQ(made().to_vector<double>(), got.to_vector<double>());
  }
}

// Images that fill up the last eight are zeros, and so is what lies around an image.
TEST_F(CudaConvWarpgroup, KeepsAnInfinityWhereItIs) {
  for (const Problem& p : problems) {
    SCOPED_TRACE(detail::concat(p.x, p.weight));
    Tensor x = random_tensor(p.x, DType::f32);
    select(select(select(select(x, 0, p.x[0] - 1), 0, 5), 0, 1), 0, 2) += std::numeric_limits<double>::infinity();
    const auto finite = [&](Device device, DType dtype) {
      const Tensor gw = weight_grad(p, on(device, dtype, x), channels_last(ones(shape_of_y(p), dtype, device)));
      std::vector<bool> are;
      for (const double v : gw.to_vector<double>()) are.push_back(std::isfinite(v));
      return are;
    };
    EXPECT_EQ(finite(gpu, DType::f32), finite(Device::cpu(), DType::f64));
  }
}

}  // namespace
}  // namespace bytetape::test
