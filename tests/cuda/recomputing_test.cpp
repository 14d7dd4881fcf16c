// Modules that recompute cheap results on a GPU: the step's own bits, eager and captured, and its predicted bytes.
#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/events.h"
#include "tests/support/memory.h"

namespace bytetape::test {
namespace {

/// Modules whose results with an activation are cheap to recompute. Sizes are multiples of 8 or, if `odd`, are not.
struct Net {
  nn::Sequential model;
  optim::Adam adam;

  explicit Net(bool odd, const nn::MemoryOptions& memory_options = {})
      : model(convolutions(odd ? 13 : 16), nn::Flatten(), perceptron((odd ? 13 : 16) * 64, odd ? 77 : 128)),
        adam(model.parameters(), {.lr = 1e-2}) {
    memory_options.apply(model);
  }
  static nn::Sequential convolutions(std::int64_t c) {
    return nn::Sequential(nn::Conv2d(3, c, 3, {.padding = 1}), nn::BatchNorm2d(c), nn::ReLU(),
                          nn::Conv2d(c, c, 3, {.padding = 1}), nn::BatchNorm2d(c), nn::GELU(Approximate::tanh),
                          nn::MaxPool2d(2));
  }
  static nn::Sequential perceptron(std::int64_t from, std::int64_t width) {
    return nn::Sequential(nn::Linear(from, width), nn::GELU(Approximate::tanh), nn::LayerNorm(Shape{width}),
                          nn::Linear(width, width), nn::ReLU(), nn::Dropout(0.25), nn::Linear(width, width), nn::GELU(),
                          nn::Linear(width, 5));
  }
  Tensor step(const Tensor& x, const Tensor& y, bool autocasts) {
    const memory::Step mark;
    adam.zero_grad();
    Tensor loss;
    if (autocasts) {
      const Autocast autocast(DType::bf16);
      loss = cross_entropy(model(x), y);
    } else {
      loss = cross_entropy(model(x), y);
    }
    loss.backward();
    adam.step();
    return loss.detach();
  }
};

struct Case {
  bool odd = false, autocasts = false, captured = false;
};

/// Losses, and the model after the steps.
std::vector<std::vector<float>> train(const Case& c, const nn::MemoryOptions& memory_options) {
  const DefaultDevice here(gpu);
  manual_seed(9);
  Net net(c.odd, memory_options);
  const auto step = [&](const Tensor& x, const Tensor& y) { return net.step(x, y, c.autocasts); };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 6; ++i) {
    const Tensor x = randn({16, 3, 16, 16}), y = randint(0, 5, 16);
    left.push_back((c.captured ? captured_step(x, y) : step(x, y)).to_vector<float>());
  }
  for (const auto& [name, t] : net.model.state_dict()) left.push_back(t.detach().to_vector<float>());
  return left;
}

class CudaRecomputing : public GpuTest {};

TEST_F(CudaRecomputing, IsTheStepBitForBit) {
  for (const bool odd : {false, true})
    for (const bool autocasts : {false, true}) {
      SCOPED_TRACE(testing::Message() << "odd " << odd << ", autocast " << autocasts);
      const auto plain = train({odd, autocasts}, {});
      for (const bool captured : {false, true}) {
        EXPECT_EQ(train({odd, autocasts, captured}, {.recomputing = {""}}), plain) << captured;
        EXPECT_EQ(train({odd, autocasts, captured}, {.checkpointed = {"2"}, .recomputing = {"0", "2"}}), plain)
            << captured;
      }
    }
  EXPECT_EQ(allocated(gpu), 0u);
}

TEST_F(CudaRecomputing, SavesLessAndIsPredictedToTheByte) {
  for (const bool autocasts : {false, true}) {
    const auto predict = [&](const nn::MemoryOptions& memory_options) {
      return memory::predict(gpu, [&] {
        auto net = std::make_shared<Net>(false, memory_options);
        const Tensor x = zeros({16, 3, 16, 16}), y = zeros(16, DType::i64);
        return [=] { net->step(x, y, autocasts); };
      });
    };
    const auto saved = [](const memory::Prediction& p) {
      return p.snapshot.statistics.by_role[static_cast<std::size_t>(memory::Role::saved)].peak;
    };
    EXPECT_LT(saved(predict({.recomputing = {""}})), saved(predict({})));
    const auto program = [&](Device device) {
      const DefaultDevice here(device);
      Net net(false, {.recomputing = {""}});
      const Tensor x = zeros({16, 3, 16, 16}), y = zeros(16, DType::i64);
      for (int i = 0; i < 2; ++i) net.step(x, y, autocasts);
    };
    EXPECT_EQ(first_difference(record_events(gpu, program), record_events(Device::meta(gpu), program)), "");
  }
}

/// Training for nn::fit, whose results have segments of their own.
struct Training {
  Net net;
  Tensor x = randn({2048, 3, 16, 16}), y = randint(0, 5, 2048);
  explicit Training(const nn::MemoryOptions& memory_options) : net(false, memory_options) {}
  void operator()() { net.step(x, y, true); }
};

TEST_F(CudaRecomputing, IsChosenByFitAndKeepsTheBits) {
  const auto make = [](const nn::MemoryOptions& memory_options) { return Training(memory_options); };
  const auto need = [&](const nn::MemoryOptions& memory_options) {
    return memory::predict(gpu, [&] { return make(memory_options); }).peak_reserved();
  };
  const std::size_t limit = (need({}) + need({.recomputing = {""}})) / 2;
  const nn::Fit f = nn::fit(gpu, limit, make);
  ASSERT_TRUE(f.fits()) << f.text();
  EXPECT_FALSE(f.memory_options.recomputing.empty()) << f.text();

  const auto run = [&](const nn::MemoryOptions& memory_options) {
    const DefaultDevice here(gpu);
    manual_seed(4);
    Training training(memory_options);
    for (int i = 0; i < 3; ++i) training();
    std::vector<std::vector<float>> left;
    for (const Tensor& p : training.net.model.parameters()) left.push_back(p.detach().to_vector<float>());
    return left;
  };
  const auto plain = run({});
  memory::empty_cache(gpu);
  const std::size_t capacity = memory::snapshot(gpu).capacity;
  memory::set_limit(limit, gpu);
  const auto fitted = run(f.memory_options);
  memory::set_limit(capacity, gpu);
  EXPECT_EQ(fitted, plain);
}

}  // namespace
}  // namespace bytetape::test
