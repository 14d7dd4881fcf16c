// Batch norm as autocast asks for it, against the CPU: images in 16 bits, all that is a number a channel in f32.
#include "bytetape/autograd/ops/norm/batch_norm.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaBatchNorm : public GpuTest {
 protected:
  /// y, the gradients, and what training moves: of x, weight, bias, gy and perhaps a residual.
  static std::vector<Tensor> train(const std::vector<Tensor>& on_cpu, Device device) {
    std::vector<Tensor> t;
    for (const Tensor& v : on_cpu) t.push_back(to(v, device).detach());
    const Tensor mean = full({t[0].size(1)}, 0.5, DType::f32, device),
                 var = full({t[0].size(1)}, 2, DType::f32, device), batches = zeros({}, DType::i64, device);
    std::vector<Tensor> inputs{t[0], t[1], t[2]};
    const Tensor residual = t.size() > 4 ? t[4] : Tensor();
    if (residual.defined()) inputs.push_back(residual);
    for (Tensor& input : inputs) input.set_requires_grad();
    const Tensor y = batch_norm(t[0], t[1], t[2], mean, var, true, 0.2, 1e-5, Activation::relu, residual, batches);
    std::vector<Tensor> results = grad({y}, inputs, {.seeds = {t[3]}});
    for (const Tensor& r : {y.detach(), mean, var, batches}) results.push_back(r);
    return results;
  }
  /// Whether rounding may decide on which side of the ReLU's kink an element lies.
  static bool may_round_over_kink(const std::vector<Tensor>& t) {
    const Tensor mean = zeros({t[0].size(1)}), var = ones({t[0].size(1)}), batches = zeros({}, DType::i64);
    const Tensor y = batch_norm(t[0], t[1], t[2], mean, var, true, 0.2, 1e-5, Activation::none,
                                t.size() > 4 ? t[4] : Tensor(), batches);
    return min(abs(y)).item<double>() < 2e-5;
  }
};

TEST_F(CudaBatchNorm, TakesSixteenBitImagesWithWideStatistics) {
  const Shape shapes[] = {{8, 64, 6, 6}, {16, 24, 9, 7}, {4, 7, 5, 5}, {2, 512, 2, 2}};
  for (const Shape& shape : shapes)
    for (const bool is_last : {true, false})
      for (const bool adds : {true, false}) {
        SCOPED_TRACE(detail::concat(shape, is_last ? " channels-last" : "", adds ? " with a residual" : ""));
        const auto image = [&] {
          const Tensor x = random_tensor(shape, DType::bf16);
          return is_last ? channels_last(x) : x;
        };
        std::vector<Tensor> inputs;
        do {
          inputs = {image(), random_tensor({shape[1]}, DType::f32), random_tensor({shape[1]}, DType::f32), image()};
          if (adds) inputs.push_back(image());
        } while (may_round_over_kink(inputs));
        const std::vector<Tensor> expected = train(inputs, Device::cpu()), found = train(inputs, gpu),
                                  again = train(inputs, gpu);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          SCOPED_TRACE(detail::concat("result ", i));
          EXPECT_EQ(found[i].dtype(), expected[i].dtype());
          EXPECT_EQ(found[i].strides(), expected[i].strides());
          const double tolerance = expected[i].dtype() == DType::bf16 ? 1.6e-2 : 1e-4;
          EXPECT_TRUE(all_close(found[i], expected[i], tolerance, tolerance));
          EXPECT_EQ(found[i].to_vector<double>(), again[i].to_vector<double>());
        }
      }
}

}  // namespace
}  // namespace bytetape::test
