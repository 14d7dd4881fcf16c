// Clipping by the norm of all gradients, against the CPU's.
#include "bytetape/optim/clip.h"

#include <cmath>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaClip : public GpuTest {
 protected:
  static std::vector<Tensor> on(Device device, const std::vector<Tensor>& gradients) {
    std::vector<Tensor> parameters;
    for (const Tensor& g : gradients) {
      const Tensor there = clone(to(g, device));
      parameters.push_back(zeros_like(there).set_requires_grad());
      parameters.back().set_grad(there);
    }
    return parameters;
  }
  static void expect_as_on_cpu(const std::vector<Tensor>& gradients, double max_norm, double most) {
    const std::vector<Tensor> here = on(Device::cpu(), gradients), there = on(gpu, gradients),
                              again = on(gpu, gradients);
    const Tensor expected = optim::clip_grad_norm_(here, max_norm), norm = optim::clip_grad_norm_(there, max_norm);
    EXPECT_EQ(norm.device(), gpu);
    EXPECT_EQ(norm.dtype(), expected.dtype());
    EXPECT_TRUE(all_close(norm, expected, 1e-6, 0));
    EXPECT_EQ(optim::clip_grad_norm_(again, max_norm).item<double>(), norm.item<double>());
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_TRUE(all_close(there[i].grad(), here[i].grad(), most, most)) << describe(gradients[i]);
      EXPECT_EQ(there[i].grad().to_vector<double>(), again[i].grad().to_vector<double>());
    }
  }
};

TEST_F(CudaClip, ScalesAsTheCpuDoes) {
  for (const auto& [dtype, most] :
       {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-6}, {DType::bf16, 1e-2}, {DType::f16, 2e-3}}) {
    SCOPED_TRACE(detail::concat(dtype));
    std::vector<Tensor> gradients;
    for (const Shape& shape : {Shape{1}, Shape{3}, Shape{}, Shape{0}, Shape{1023}, Shape{4097}, Shape{2, 3, 5, 7}})
      gradients.push_back(random_tensor(shape, dtype));
    gradients.push_back(channels_last(random_tensor({4, 3, 3, 5}, dtype)));
    for (const double max_norm : {0.5, 1e9}) expect_as_on_cpu(gradients, max_norm, most);
    gradients.push_back(random_tensor({5 << 20}, dtype));  // longer chunks, and more of them than blocks
    expect_as_on_cpu(gradients, 0.5, most);
  }
}

TEST_F(CudaClip, TakesMoreGradientsThanOneLaunch) {
  std::vector<Tensor> gradients;
  for (std::int64_t i = 0; i < 2100; ++i)
    gradients.push_back(random_tensor({1 + i % 7}, i % 3 ? DType::f32 : DType::f64));
  expect_as_on_cpu(gradients, 0.5, 1e-6);
}

TEST_F(CudaClip, TakesGradientsThatBeginAnywhere) {
  const Tensor all = random_tensor({4000}, DType::f32);
  const auto clipped = [&](Device device) {
    const Tensor memory = clone(to(all, device));
    std::vector<Tensor> parameters;
    for (const std::int64_t start : {1, 1002, 2003}) {
      parameters.push_back(zeros({997}, DType::f32, device).set_requires_grad());
      parameters.back().set_grad(narrow(memory, 0, start, 997));
    }
    optim::clip_grad_norm_(parameters, 1);
    return memory.to_vector<double>();
  };
  EXPECT_TRUE(all_close(clipped(gpu), clipped(Device::cpu()), 1e-6, 1e-6));
}

TEST_F(CudaClip, ByValueIsTheCpusBitForBit) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(detail::concat(dtype));
    std::vector<Tensor> gradients;
    for (const Shape& shape : {Shape{1}, Shape{3}, Shape{}, Shape{0}, Shape{1023}, Shape{4097}, Shape{5 << 20}})
      gradients.push_back(random_tensor(shape, dtype));
    gradients.push_back(from_vector(std::vector<double>{1e4, -1e4, INFINITY, -INFINITY, 0.1}));
    const std::vector<Tensor> here = on(Device::cpu(), gradients), there = on(gpu, gradients);
    optim::clip_grad_value_(here, 0.3);
    optim::clip_grad_value_(there, 0.3);
    for (std::size_t i = 0; i < here.size(); ++i)
      EXPECT_EQ(there[i].grad().to_vector<double>(), here[i].grad().to_vector<double>()) << describe(gradients[i]);
    const Tensor nan = on(gpu, {full({5}, NAN)})[0];
    optim::clip_grad_value_({nan}, 1);
    EXPECT_TRUE(std::isnan(nan.grad().to_vector<float>()[4]));
  }
}

TEST_F(CudaClip, DoesNotWaitForTheDevice) {
  const std::vector<Tensor> p = on(gpu, {random_tensor({1000})});
  const auto before = memory::stats(gpu).waits;
  optim::clip_grad_norm_(p, 1);
  EXPECT_EQ(memory::stats(gpu).waits, before);
}

}  // namespace
}  // namespace bytetape::test
