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

/// The properties that select the kernels of a training step.
struct Variant {
  Activation activation = Activation::relu;
  bool has_residual = false, in_two_parts = false;  // of y's gradient
  bool is_slice = false;                            // whether images lie among other channels
};
std::ostream& operator<<(std::ostream& out, const Variant& v) {
  return out << "activation " << static_cast<int>(v.activation) << (v.has_residual ? ", residual" : "")
             << (v.in_two_parts ? ", gradient in two parts" : "") << (v.is_slice ? ", slices" : "");
}

class CudaBatchNormVariants : public GpuTest {
 protected:
  /// Returns y and the gradients of x, weight, bias and perhaps a residual. `tensors` are those, and last y's gradient.
  /// Images take the dtype, and numbers of channels are wide.
  static std::vector<Tensor> train(const Variant& v, const std::vector<Tensor>& tensors, Device device, DType dtype) {
    std::vector<Tensor> inputs;
    for (const Tensor& t : tensors) {
      const Tensor there = to(t, device);
      inputs.push_back(t.rank() == 4 ? image(to(there, dtype), v.is_slice) : to(there, accumulated(dtype)));
    }
    const Tensor gy = inputs.back();
    inputs.pop_back();
    for (Tensor& t : inputs) t = t.detach(), t.set_requires_grad();
    const Tensor y = batch_norm(inputs[0], inputs[1], inputs[2], {}, {}, true, 0.1, 1e-5, v.activation,
                                v.has_residual ? inputs[3] : Tensor());
    std::vector<Tensor> results =
        v.in_two_parts ? grad({sum(y * gy) + sum(y * y)}, inputs) : grad({y}, inputs, {.seeds = {gy}});
    results.insert(results.begin(), y.detach());
    return results;
  }

  /// Compares with the CPU in f64, and with a second run bit by bit.
  static void expect_agreement(const Shape& shape, const Variant& v, std::initializer_list<DType> dtypes) {
    SCOPED_TRACE(detail::concat(shape, ", ", v));
    const auto random = [&](const Shape& of) { return to(random_tensor(of, DType::bf16), DType::f64); };
    std::vector<Tensor> tensors{random(shape) * 2 + 3, random({shape[1]}), random({shape[1]})};
    if (v.has_residual) tensors.push_back(random(shape));
    tensors.push_back(random(shape));
    for (const DType dtype : dtypes) {
      SCOPED_TRACE(dtype);
      for (Tensor& t : tensors)
        if (t.rank() == 4) t = to(to(t, dtype), DType::f64);
      const std::vector<Tensor> expected = train(v, tensors, Device::cpu(), DType::f64),
                                found = train(v, tensors, gpu, dtype), again = train(v, tensors, gpu, dtype);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(detail::concat("result ", i));
        EXPECT_EQ(found[i].to_vector<double>(), again[i].to_vector<double>());
        // Compares norms over all elements, as rounding moves a few across ReLU's kink.
        const Tensor error = norm(to(found[i], Device::cpu(), DType::f64) - expected[i]) / norm(expected[i]);
        EXPECT_LT(error.item<double>(), dtype == DType::f32 ? 2e-3 : 2e-2);
      }
    }
  }

 private:
  static Tensor image(const Tensor& x, bool is_slice) {
    return is_slice ? narrow(channels_last(cat({x, x}, 1)), 1, x.size(1), x.size(1)) : channels_last(x);
  }
};

// Clusters of one to eight blocks hold most of these, some of them with fewer pixels than threads take. Some are too
// large in f32 or with a residual, and the last one always. The results of slices have another layout.
TEST_F(CudaBatchNormVariants, AgreesWithTheCpu) {
  const Shape shapes[] = {{3, 8, 2, 1},    {3, 32, 5, 7},   {40, 64, 6, 6},  {128, 512, 4, 4},
                          {96, 256, 8, 8}, {33, 256, 9, 7}, {128, 64, 8, 8}, {9, 64, 31, 31}};
  const Variant variants[] = {{},
                              {.has_residual = true},
                              {.has_residual = true, .is_slice = true},
                              {.in_two_parts = true},
                              {.has_residual = true, .in_two_parts = true},
                              {.activation = Activation::gelu_tanh},
                              {.activation = Activation::none},
                              {.activation = Activation::none, .is_slice = true}};
  for (const Shape& shape : shapes)
    for (const Variant& v : variants) expect_agreement(shape, v, {DType::f32, DType::bf16, DType::f16});
}

// Each block takes whole parts of such images, and then a share of the rest with fewer pixels than it has rows.
constexpr std::int64_t many = 67;  // images of 64 channels and 32x32 pixels

TEST_F(CudaBatchNormVariants, LargerImagesAgreeWithTheCpu) {
  for (const Variant& v : {Variant{}, Variant{.has_residual = true, .in_two_parts = true}})
    expect_agreement({many, 64, 32, 32}, v, {DType::f32, DType::bf16});
}

/// Compares the running statistics after a step of momentum 1 with those of f64 on the CPU.
void expect_statistics(const Tensor& x) {
  const NoGrad no_grad;
  const auto statistics = [](const Tensor& of, DType dtype) {
    const Tensor mean = zeros({of.size(1)}, dtype, of.device()), var = zeros_like(mean);
    batch_norm(of, {}, {}, mean, var, true, 1);
    return std::pair(mean, var);
  };
  const auto [mean, var] = statistics(x, DType::f32);
  const auto [expected_mean, expected_var] = statistics(to(x, Device::cpu(), DType::f64), DType::f64);
  EXPECT_TRUE(all_close(mean, expected_mean, 1e-6, 1e-6));
  EXPECT_TRUE(all_close(var, expected_var, 1e-5, 1e-7));
}

TEST_F(CudaBatchNormVariants, StatisticsIncludeTheRest) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(dtype);
    const Tensor x = channels_last(zeros({many, 64, 32, 32}, dtype, gpu));
    index(x, {Slice(0, 3)}) = 1;  // these are taken last
    expect_statistics(x);
  }
}

TEST_F(CudaBatchNormVariants, StatisticsKeepSmallDifferencesOfLargeNumbers) {
  for (const auto& [dtype, least, step] : {std::tuple(DType::bf16, 256, 2.0), std::tuple(DType::f16, 1000, 0.5)}) {
    SCOPED_TRACE(dtype);
    const Tensor is_larger = to(random_tensor({many, 64, 32, 32}, DType::f32) > 0, DType::f32);
    expect_statistics(channels_last(to(is_larger * step + least, gpu, dtype)));
  }
}

// Sums of such numbers are beyond f32.
TEST_F(CudaBatchNormVariants, ChannelsOfOneValueHaveNoVariance) {
  const NoGrad no_grad;
  for (const Shape& shape : {Shape{8, 64, 4, 4}, Shape{9, 64, 31, 31}, Shape{many, 64, 32, 32}}) {
    const Tensor x = channels_last(full(shape, 3e38, DType::bf16, gpu)), var = ones({64}, DType::f32, gpu);
    const Tensor mean = zeros_like(var), y = batch_norm(x, {}, {}, mean, var, true, 1);
    EXPECT_EQ(max(abs(y)).item<double>(), 0) << shape;
    EXPECT_EQ(max(abs(var)).item<double>(), 0) << shape;
    EXPECT_EQ(min(mean).item<double>(), x.to_vector<double>()[0]) << shape;
  }
}

}  // namespace
}  // namespace bytetape::test
