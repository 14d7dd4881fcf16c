// Two GPUs in one process.
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "bytetape/autograd/capture.h"
#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaSecondGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    SKIP_WITHOUT_ANOTHER_GPU();
  }
};

std::vector<double> values(const Tensor& x) { return to(x, DType::f64).to_vector<double>(); }

/// A convolution network with batch norm, its optimizer, and steps on random batches.
class Training {
 public:
  explicit Training(Device device) : device_(device), generator_(3) {
    const DefaultGenerator scope(generator_);
    net_.to(device);
    adamw_.emplace(net_.parameters(), optim::AdamWOptions{.lr = 0.01});
  }
  /// Takes a step. Returns the loss.
  float step(bool is_captured) {
    const DefaultDevice here(device_);
    const Tensor x = to(randn({6, 3, 8, 8}, DType::f32, Device(), generator_), device_);
    const Tensor t = to(randint(0, 5, {6}, DType::i64, Device(), generator_), device_);
    return (is_captured ? captured_(x, t) : take(x, t)).item<float>();
  }
  bool is_captured() const { return captured_.is_captured(); }
  std::vector<std::vector<float>> parameters() const {
    std::vector<std::vector<float>> all;
    for (const Tensor& p : net_.parameters()) all.push_back(p.detach().to_vector<float>());
    return all;
  }

 private:
  Tensor take(const Tensor& x, const Tensor& t) {
    adamw_->zero_grad();
    const Tensor loss = cross_entropy(net_(x), t);
    loss.backward();
    adamw_->step();
    return loss.detach();
  }
  static nn::Sequential make() {
    Generator generator(11);
    const DefaultGenerator scope(generator);
    return nn::Sequential(nn::Conv2d(3, 16, 3, {.padding = 1}), nn::BatchNorm2d(16), nn::ReLU(), nn::Flatten(),
                          nn::Linear(16 * 64, 32), nn::ReLU(), nn::Linear(32, 5));
  }

  const Device device_;
  Generator generator_;
  nn::Sequential net_ = make();
  std::optional<optim::AdamW> adamw_;
  CapturedStep<std::function<Tensor(const Tensor&, const Tensor&)>> captured_{
      [this](const Tensor& x, const Tensor& t) { return take(x, t); }};
};

TEST_F(CudaSecondGpu, TrainsInTurnsWithTheFirst) {
  for (const bool is_captured : {false, true}) {
    Training alone(gpu);
    for (int i = 0; i < 8; ++i) alone.step(is_captured);
    Training here(gpu), there(another_gpu());
    for (int i = 0; i < 8; ++i) {
      const float loss = here.step(is_captured);
      EXPECT_EQ(there.step(is_captured), loss) << i;
    }
    EXPECT_EQ(here.is_captured(), is_captured);
    EXPECT_EQ(there.is_captured(), is_captured);
    EXPECT_EQ(here.parameters(), alone.parameters());
    EXPECT_EQ(there.parameters(), alone.parameters());
  }
}

TEST_F(CudaSecondGpu, GetsCopiesFromTheFirst) {
  const auto gaps = [](const Tensor& x) { return narrow(transpose(x, 0, 1), 0, 1, 7); };
  for (const Shape& shape : {Shape{0, 9}, Shape{6, 9}, Shape{1031, 4099}})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::u8}) {
      const Tensor x = to(randn(shape) * 50, dtype), here = to(x, gpu), there = to(here, another_gpu());
      EXPECT_EQ(there.device(), another_gpu());
      EXPECT_EQ(values(there), values(x));
      EXPECT_EQ(values(to(there, gpu)), values(x));
      if (shape[0] == 0) continue;
      EXPECT_EQ(values(to(gaps(here), another_gpu())), values(gaps(x)));
    }
}

TEST_F(CudaSecondGpu, GivesItsGradientsToTheFirst) {
  const Tensor x = randn({40, 30}, DType::f64);
  Tensor here = to(x, gpu);
  here.set_requires_grad();
  const Tensor there = to(sin(here), another_gpu());
  sum(there * there).backward();
  EXPECT_EQ(here.grad().device(), gpu);
  EXPECT_TRUE(all_close(to(here.grad(), Device()), 2 * sin(x) * cos(x), 1e-12, 1e-12));
}

TEST_F(CudaSecondGpu, SharesNoOpWithTheFirst) {
  const Tensor here = ones({4}, DType::f32, gpu), there = ones({4}, DType::f32, another_gpu());
  EXPECT_THROW(here + there, DeviceError);
  EXPECT_THROW(cat({here, there}, 0), DeviceError);
  EXPECT_THROW(matmul(ones({4, 4}, DType::f32, gpu), there), DeviceError);
}

TEST_F(CudaSecondGpu, HoldsItsOwnBytes) {
  const std::size_t here = allocated(gpu), there = allocated(another_gpu());
  {
    const Tensor x = ones({1000, 1000}, DType::f32, another_gpu());
    const Tensor y = matmul(x, x);
    EXPECT_EQ(allocated(gpu), here);
    EXPECT_GE(allocated(another_gpu()), there + 8000000);
  }
  EXPECT_EQ(allocated(another_gpu()), there);
  memory::set_limit(std::size_t{64} << 20, another_gpu());
  EXPECT_THROW(empty({1 << 25}, DType::f32, another_gpu()), OutOfMemory);
  EXPECT_NO_THROW(empty({1 << 25}, DType::f32, gpu));
  memory::set_limit(std::numeric_limits<std::size_t>::max(), another_gpu());
}

TEST_F(CudaSecondGpu, KeepsItsFaults) {
  const Tensor x = randn({5, 3}, DType::f32, another_gpu());
  const Tensor beyond = full({2}, 7, DType::i64, another_gpu());
  const Tensor y = index_select(x, 0, beyond);
  EXPECT_NO_THROW(synchronize(gpu));
  EXPECT_NO_THROW(ones({3}, DType::f32, gpu).to_vector<float>());
  EXPECT_THROWS_SAYING(synchronize(another_gpu()), ValueError, "index 7 is not in [0, 5)");
  EXPECT_NO_THROW(synchronize(another_gpu()));
}

TEST_F(CudaSecondGpu, WaitsForTheFirstOnAnyStream) {
  Tensor x = ones({1 << 22}, DType::f32, gpu);
  for (int i = 0; i < 20; ++i) {
    const StreamScope scope(Stream(i % 3));
    x = x + 1;
    const Tensor there = to(x, another_gpu());
    EXPECT_EQ(max(there).item<float>(), static_cast<float>(i + 2));
    EXPECT_EQ(min(there).item<float>(), static_cast<float>(i + 2));
  }
}

}  // namespace
}  // namespace bytetape::test
