// A cap on what cuBLASLt and cuDNN may use as scratch: as predicted, and on a GPU.
#include <optional>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// Until the end of a scope.
class Cap {
 public:
  Cap(Device device, std::optional<std::size_t> bytes) : device_(device) { cuda::set_workspace_cap(device, bytes); }
  ~Cap() { cuda::set_workspace_cap(device_, std::nullopt); }

 private:
  Device device_;
};

/// The most bytes of workspace that f needs on a device, from an empty cache.
template <class F>
std::size_t peak_workspace(Device device, const F& f) {
  memory::empty_cache(device);
  memory::reset_peaks(device);
  f(device);
  return memory::stats(device).by_role[static_cast<std::size_t>(memory::Role::workspace)].peak;
}
void product(Device device) {
  const Tensor x = empty({512, 512}, DType::f32, device);
  matmul(x, x);
}
void convolution(Device device) {
  const Tensor x = empty({64, 64, 32, 32}, DType::f32, device), w = empty({64, 64, 3, 3}, DType::f32, device);
  conv2d(x, w, {}, {.padding = 1});
}

/// With its gradients, on tensors that begin one element into their memory.
void convolution_of_views(Device device) {
  const auto view_of = [&](const Shape& shape) {
    return empty({1 + numel(shape)}, DType::f32, device).alias(shape, channels_last_strides(shape), 1);
  };
  const Tensor x = view_of({3, 64, 17, 17}).set_requires_grad(), w = view_of({24, 64, 3, 3}).set_requires_grad();
  const Tensor b = empty({25}, DType::f32, device).alias({24}, {1}, 1).set_requires_grad();
  grad({conv2d(x, w, b, {.padding = 1})}, {x, w, b}, {.seeds = {view_of({3, 24, 17, 17})}});
}

TEST(WorkspaceCap, IsWhatAPredictionSays) {
  const Device capped = Device::cuda(7), twin = Device::meta(capped), other = Device::meta(Device::cuda(6));
  const std::size_t usual_product = peak_workspace(twin, product), usual = peak_workspace(twin, convolution);
  EXPECT_EQ(usual_product, 16 * mib);
  EXPECT_GT(usual, 32 * mib);
  std::size_t own = 0;  // scratch of our own kernels, for what cuDNN does not take
  for (const std::size_t bytes : {std::size_t{0}, 4 * mib, 32 * mib}) {
    const Cap cap(capped, bytes);
    EXPECT_EQ(peak_workspace(twin, product), std::min(bytes, 16 * mib));
    const std::size_t of_conv = peak_workspace(twin, convolution);
    if (bytes == 0) own = of_conv;
    EXPECT_LT(of_conv, usual);
    EXPECT_GE(of_conv, bytes);
    EXPECT_LE(of_conv, std::max(own, bytes) + 4 * mib);
    EXPECT_EQ(peak_workspace(other, product), usual_product);
  }
  EXPECT_EQ(peak_workspace(twin, product), usual_product);
  EXPECT_EQ(peak_workspace(twin, convolution), usual);
}

TEST(WorkspaceCap, RoundsDown) {
  const Device twin = Device::meta(Device::cuda(7));
  const Cap cap(twin, 3 * 512 + 300);
  EXPECT_EQ(peak_workspace(twin, product), rounded(3 * 512 + 256));
  const Cap none(twin, 255);
  EXPECT_EQ(peak_workspace(twin, product), 0u);
}

TEST(WorkspaceCap, RefusesOtherDevices) {
  EXPECT_THROWS_SAYING(cuda::set_workspace_cap(Device::cpu(), 0), DeviceError,
                       "set_workspace_cap: cpu is not a CUDA device");
}

double nmse(const std::vector<double>& actual, const std::vector<double>& expected) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    off += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    all += expected[i] * expected[i];
  }
  return off / all;
}

class CudaWorkspaceCap : public GpuTest {};

TEST_F(CudaWorkspaceCap, IsWhatProductsAndConvolutionsKeepTo) {
  const Tensor a = random_tensor({300, 700}), b = random_tensor({700, 200});
  const Tensor x = random_tensor({4, 16, 15, 15}), w = random_tensor({32, 16, 3, 3});
  const auto results = [&](Device device, DType dtype) {
    const auto there = [&](const Tensor& t) { return to(to(t, dtype), device).detach().set_requires_grad(); };
    const Tensor p = there(a), q = there(b), image = there(x), kernel = there(w);
    const Tensor y = matmul(p, q), z = conv2d(image, kernel, {}, {.padding = 1});
    (sum(y * y) + sum(z * z)).backward();
    std::vector<std::vector<double>> all;
    for (const Tensor& t : {p, q, image, kernel}) all.push_back(t.grad().to_vector<double>());
    return all;
  };
  for (const auto& [dtype, most] : {std::pair{DType::f64, 1e-18}, {DType::f32, 1e-7}, {DType::bf16, 1e-3}})
    for (const std::optional<std::size_t> bytes :
         {std::optional<std::size_t>(), {0}, {100000}, {4 * mib}, {32 * mib}}) {
      SCOPED_TRACE(detail::concat(dtype, " ", bytes ? static_cast<std::int64_t>(*bytes) : -1));
      const auto expected = results(Device::cpu(), dtype);
      const Cap cap(gpu, bytes);
      const auto first = results(gpu, dtype);
      for (std::size_t i = 0; i < first.size(); ++i) EXPECT_LE(nmse(first[i], expected[i]), most) << i;
      EXPECT_EQ(results(gpu, dtype), first);
    }
}

TEST_F(CudaWorkspaceCap, IsPredictedToTheByte) {
  for (const std::optional<std::size_t> bytes : {std::optional<std::size_t>(), {0}, {4 * mib}, {32 * mib}}) {
    const Cap cap(gpu, bytes);
    EXPECT_EQ(peak_workspace(gpu, product), peak_workspace(Device::meta(gpu), product));
    EXPECT_EQ(peak_workspace(gpu, convolution), peak_workspace(Device::meta(gpu), convolution));
    EXPECT_EQ(peak_workspace(gpu, convolution_of_views), peak_workspace(Device::meta(gpu), convolution_of_views));
  }
}

}  // namespace
}  // namespace bytetape::test
