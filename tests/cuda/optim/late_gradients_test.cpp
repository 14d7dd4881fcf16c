// Gradients that another stream still writes when the step is launched.
#include "bytetape/autograd/capture.h"
#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/late_sink.h"

namespace bytetape::test {
namespace {

class CudaLateGradients : public GpuTest {};

/// The parameters after ten steps, whose late gradients take a millisecond or more to compute.
std::vector<std::vector<float>> train(bool are_late, bool is_captured) {
  const DefaultDevice here(gpu);
  Generator generator(13);
  const auto draw = [&](const Shape& shape) { return to(randn(shape, DType::f32, Device(), generator), gpu); };
  std::vector<Tensor> parameters;
  for (const Shape& shape : {Shape{2048, 2048}, Shape{3000}, Shape{2048, 2048}, Shape{7}})
    parameters.push_back(draw(shape).set_requires_grad());
  const LateSink sink(are_late ? std::vector{parameters[0], parameters[3]} : std::vector<Tensor>(), Stream(5));
  optim::AdamW adamw(parameters, {.lr = 0.01});
  const auto take = [&](const Tensor& x, const Tensor& y) {
    adamw.zero_grad();
    parameters[1].set_grad(narrow(reshape(x, {-1}), 0, 0, 3000) * 2);
    parameters[2].set_grad(x * 3);
    {
      const StreamScope beside(Stream(5));
      const NoGrad no_grad;
      Tensor product = x;
      for (int i = 0; i < 20; ++i) product = tanh(matmul(product, y));
      parameters[0].set_grad(product);
      parameters[3].set_grad(narrow(reshape(product, {-1}), 0, 100, 7) + 1);
    }
    adamw.step();
    return sum(parameters[2].detach());
  };
  auto step = capture(take);
  for (int i = 0; i < 10; ++i) {
    const Tensor x = draw({2048, 2048}), y = draw({2048, 2048});
    is_captured ? step(x, y) : take(x, y);
  }
  EXPECT_EQ(step.is_captured(), is_captured);
  std::vector<std::vector<float>> values;
  for (const Tensor& p : parameters) values.push_back(p.detach().to_vector<float>());
  return values;
}

TEST_F(CudaLateGradients, AreWaitedFor) {
  const auto expected = train(false, false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(train(true, false), expected) << i;
    EXPECT_EQ(train(true, true), expected) << i;
  }
}

}  // namespace
}  // namespace bytetape::test
