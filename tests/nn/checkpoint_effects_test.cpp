// core/memory/prediction/checkpoint_effects.h: what memory::advise() promises of modules, and what checkpoints of them
// come to.
#include "bytetape/core/memory/prediction/checkpoint_effects.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/advice.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

struct Trained {
  Log log;
  std::size_t peak;  // of the last step
  std::vector<float> losses, grads;
};

/// Some steps of `step(model)`, which returns losses, with these modules checkpointed.
template <class Model, class Step>
Trained train(Model model, Step step, const std::vector<std::string>& checkpointed) {
  const test::TemporaryDir dir;
  nn::checkpoint_modules(model, checkpointed);
  manual_seed(11);
  optim::SGD sgd(model.parameters(), {.lr = 0.1});
  Recording recording(dir / "run.memlog");
  Trained t;
  for (int i = 0; i < 2; ++i) {
    const memory::Step here;
    sgd.zero_grad();
    for (const float loss : step(model)) t.losses.push_back(loss);
    if (i == 0) sgd.step();
  }
  recording.finish();
  t.log = read_log(dir / "run.memlog");
  t.peak = allocator(Device::cpu()).snapshot().steps.back().peak;
  for (const Tensor& p : model.parameters())
    if (p.grad().defined())
      for (const float v : p.grad().template to_vector<float>()) t.grads.push_back(v);
  return t;
}

const DeviceLog& cpu(const Log& log) {
  return *std::find_if(log.devices.begin(), log.devices.end(), [](const DeviceLog& d) { return d.name == "cpu"; });
}
std::vector<Advice> advice_of(const Trained& t) { return advise(t.log, cpu(t.log)); }

bool advises(const std::vector<Advice>& all, const std::vector<std::string>& modules) {
  return std::any_of(all.begin(), all.end(), [&](const Advice& a) { return a.modules == modules; });
}

/// Of all advice, that the peak is as low as promised, and nothing else changes. Gives how much is saved and promised.
template <class Make, class Step>
std::pair<std::size_t, std::size_t> check_promises(Make make, Step step, const Trained& plain) {
  std::size_t saved = 0, promised = 0;
  for (const Advice& a : advice_of(plain)) {
    SCOPED_TRACE(a.text());
    EXPECT_EQ(a.peak, plain.peak);
    const Trained with = train(make(), step, a.modules);
    EXPECT_LE(with.peak, a.peak_then);
    EXPECT_EQ(with.losses, plain.losses);
    EXPECT_EQ(with.grads, plain.grads);
    saved += plain.peak - std::min(with.peak, plain.peak);
    promised += a.peak - a.peak_then;
  }
  return {saved, promised};
}

// ---- a U-Net

struct Down : nn::Module {
  nn::Conv2d conv;
  nn::MaxPool2d pool{2};
  Down(std::int64_t in, std::int64_t out) : conv(in, out, 3, {.padding = 1}) {
    register_module("conv", conv);
    register_module("pool", pool);
  }
  /// What goes on, and the skip.
  std::pair<Tensor, Tensor> operator()(const Tensor& x) {
    const auto body = [this](const Tensor& x) {
      const Tensor skip = conv(x, Activation::relu);
      return std::pair(pool(skip), skip);
    };
    return nn::call(*this, body, x);
  }
};

struct Up : nn::Module {
  nn::Upsample up{InterpolateOptions{.scale_factor = 2}};
  nn::Conv2d conv, tail;
  Up(std::int64_t in, std::int64_t skip, std::int64_t out)
      : conv(in + skip, out, 3, {.padding = 1}), tail(out, out, 3, {.padding = 1}) {
    register_module("up", up);
    register_module("conv", conv);
    register_module("tail", tail);
  }
  Tensor operator()(const Tensor& x, const Tensor& skip) {
    const auto body = [this](const Tensor& x, const Tensor& skip) {
      return tail(tanh(conv(cat({up(x), skip}, 1), Activation::relu)), Activation::relu);
    };
    return nn::call(*this, body, x, skip);
  }
};

template <class UpModule = Up>
struct UNet : nn::Module {
  nn::ModuleList<Down> downs{Down(3, 8), Down(8, 16)};
  nn::Conv2d middle{16, 16, 3, {.padding = 1}};
  nn::ModuleList<UpModule> ups{UpModule(16, 16, 8), UpModule(8, 8, 8)};
  nn::Conv2d head{8, 2, 1};
  UNet() {
    register_module("downs", downs);
    register_module("middle", middle);
    register_module("ups", ups);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> skips;
    Tensor h = x;
    for (Down& down : downs) {
      auto [on, skip] = down(h);
      h = on;
      skips.push_back(skip);
    }
    h = middle(h, Activation::relu);
    for (UpModule& up : ups) {
      h = up(h, skips.back());
      skips.pop_back();
    }
    return head(h);
  }
};

template <class Model>
std::vector<float> segment(Model& net) {
  const Tensor x = randn({4, 3, 32, 32}), y = randint(0, 2, {4, 32, 32});
  const Tensor loss = cross_entropy(net(x), y);
  loss.backward();
  return {loss.item<float>()};
}

UNet<> seeded_unet() {
  manual_seed(5);
  return UNet<>();
}

TEST(CheckpointEffects, OfModulesWithTwoInputsAreWhatIsPromised) {
  const auto step = segment<UNet<>>;
  const Trained plain = train(seeded_unet(), step, {});
  const std::vector<Advice> all = advice_of(plain);
  EXPECT_TRUE(advises(all, {"ups.0 Up"}));
  EXPECT_FALSE(advises(all, {"ups"})) << "nobody calls it";
  const auto [saved, promised] = check_promises(seeded_unet, step, plain);
  EXPECT_GT(promised, plain.peak / 10);
  EXPECT_GT(promised, saved / 2);
}

struct SegmentTraining {
  UNet<> net;
  optim::SGD sgd{net.parameters(), {.lr = 0.1}};
  explicit SegmentTraining(const nn::MemoryOptions& memory_options) { memory_options.apply(net); }
  void operator()() {
    const Step step;
    sgd.zero_grad();
    const Tensor x = randn({32, 3, 32, 32}), y = randint(0, 2, {32, 32, 32});  // more than any kernel's scratch
    cross_entropy(net(x), y).backward();
    sgd.step();
  }
};

TEST(CheckpointEffects, OfModulesWithTwoInputsAreFoundByFit) {
  const auto training = [](const nn::MemoryOptions& memory_options) { return SegmentTraining(memory_options); };
  const Prediction plain = predict(Device::cpu(), [&] { return training({}); });
  std::size_t limit = plain.peak_allocated() * 17 / 20;
  nn::Fit f = nn::fit(Device::cpu(), limit, training);
  if (!f.fits()) f = nn::fit(Device::cpu(), limit = f.enough, training);  // scratch depends on the kernels
  ASSERT_TRUE(f.fits()) << f.text();
  EXPECT_GE(std::count_if(f.memory_options.checkpointed.begin(), f.memory_options.checkpointed.end(),
                          [](const std::string& m) { return m.starts_with("ups."); }),
            1)
      << f.text();
  EXPECT_LT(f.with.peak_allocated(), plain.peak_allocated());
  Allocator& books = allocator(Device::cpu());
  books.empty_cache();
  const std::size_t before = books.statistics().allocated.current;
  books.reset_peaks();
  const std::size_t limit_before = books.limit();
  books.set_limit(books.statistics().reserved.current + limit);
  {
    SegmentTraining real(f.memory_options);
    for (int i = 0; i < 3; ++i) real();
  }
  books.set_limit(limit_before);
  EXPECT_EQ(books.statistics().allocated.peak - before, f.with.peak_allocated());
}

/// The same, of which nothing can be run again.
struct PlainUp : Up {
  using Up::Up;
  Tensor operator()(const Tensor& x, const Tensor& skip) {
    const nn::Call call(*this);
    return tail(tanh(conv(cat({up(x), skip}, 1), Activation::relu)), Activation::relu);
  }
};

TEST(CheckpointEffects, OfWhatCannotRunAgainAreNoneAndTheReportSaysWhy) {
  const auto step = segment<UNet<PlainUp>>;
  const Trained t = train(UNet<PlainUp>(), step, {});
  for (const Advice& a : advice_of(t))
    for (const std::string& module : a.modules) EXPECT_NE(module, "ups.1 PlainUp");
  const std::vector<std::string> why = why_not_advised(t.log, cpu(t.log));
  ASSERT_EQ(why.size(), 1u);
  EXPECT_THAT(why[0], testing::StartsWith("no checkpoint is advised for ups.1 PlainUp ("));
  EXPECT_THAT(why[0], testing::HasSubstr("nn::call(*this, body, inputs...)"));
  EXPECT_THAT(advice_texts(t.log), testing::Contains("cpu: " + why[0]));
  EXPECT_THROWS_SAYING(train(UNet<PlainUp>(), step, {"ups.1"}), NotImplemented,
                       "PlainUp is checkpointed, but the function that was called begins with nn::Call");
}

TEST(CheckpointEffects, OfARecordingWithoutCallsAreNoneAndTheReportSaysWhy) {
  Trained t = train(seeded_unet(), segment<UNet<>>, {});
  for (DeviceLog& d : t.log.devices)
    std::erase_if(d.records, [](const Record& r) {
      return r.event.kind == EventKind::argument || r.event.kind == EventKind::result;
    });
  EXPECT_TRUE(advice_of(t).empty());
  const std::vector<std::string> why = why_not_advised(t.log, cpu(t.log));
  ASSERT_EQ(why.size(), 1u);
  EXPECT_THAT(why[0],
              testing::HasSubstr("the recording does not have the inputs of modules, because an earlier version"));
}

// ---- modules that run more than once

struct Cell : nn::Module {
  nn::Linear input{32, 64}, hidden{64, 64};
  Cell() {
    register_module("input", input);
    register_module("hidden", hidden);
  }
  Tensor operator()(const Tensor& x, const Tensor& h) {
    const auto body = [this](const Tensor& x, const Tensor& h) {
      return tanh(sigmoid(tanh(sigmoid(input(x) + hidden(h)))));
    };
    return nn::call(*this, body, x, h);
  }
};

/// One cell, run at each time.
struct Recurrent : nn::Module {
  Cell cell;
  nn::Linear head{64, 4};
  Recurrent() {
    register_module("cell", cell);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = zeros({x.size(0), 64});
    for (int t = 0; t < 6; ++t) h = cell(x, h);
    return head(h);
  }
};

template <class Model>
std::vector<float> regress(Model& net) {
  const Tensor loss = sum(net(randn({128, 32})) * 0.1);
  loss.backward();
  return {loss.item<float>()};
}
template <class Model>
std::vector<float> accumulate(Model& net) {
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) losses.push_back(regress(net).at(0));
  return losses;
}

template <class Model>
Model seeded() {
  manual_seed(5);
  return Model();
}

TEST(CheckpointEffects, OfASharedModuleAreThoseOfAllItsCalls) {
  const Trained plain = train(seeded<Recurrent>(), regress<Recurrent>, {});
  EXPECT_TRUE(advises(advice_of(plain), {"cell"}));
  const auto [saved, promised] = check_promises(seeded<Recurrent>, regress<Recurrent>, plain);
  EXPECT_GT(promised, plain.peak / 3);
  EXPECT_GT(promised, saved * 8 / 10);
}

struct Mlp : nn::Module {
  nn::ModuleList<nn::Sequential> blocks;
  nn::Linear head{32, 4};
  Mlp() {
    for (int i = 0; i < 4; ++i)
      blocks.push_back(nn::Sequential(nn::Linear(32, 64), nn::Tanh(), nn::Sigmoid(), nn::Tanh(), nn::Linear(64, 32)));
    register_module("blocks", blocks);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::Sequential& block : blocks) h = block(h);
    return head(h);
  }
};

TEST(CheckpointEffects, OfAccumulatedGradientsAreThoseOfEachBatch) {
  const Trained plain = train(seeded<Mlp>(), accumulate<Mlp>, {});
  EXPECT_TRUE(advises(advice_of(plain), {"blocks.0 Sequential"}));
  for (const Advice& a : advice_of(plain)) EXPECT_LE(a.forward_time.value(), 1) << a.text();
  const auto [saved, promised] = check_promises(seeded<Mlp>, accumulate<Mlp>, plain);
  EXPECT_GT(promised, plain.peak / 5);
  EXPECT_GT(promised, saved * 8 / 10);
}

// ---- an input of two modules

/// Saves 14 results of some columns of its input, and not the input.
struct Branch : nn::Module {
  Tensor forward(const Tensor& x) override {
    Tensor h = narrow(x, 1, 0, 64) * 0.5;
    for (int i = 0; i < 14; ++i) h = tanh(h);
    return sum(h, 1, true);
  }
};
/// Two branches of an input that nobody else saves, and behind them what is saved too.
struct Fork : nn::Module {
  nn::Linear stem{32, 8 * 64}, tail{32, 64};
  Branch first, second;
  Fork() {
    register_module("stem", stem);
    register_module("tail", tail);
    register_module("first", first);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) override {
    Tensor both;
    {
      const Tensor h = stem(x), a = first(h);
      both = a + second(h);
    }
    Tensor h = tail(x);
    for (int i = 0; i < 12; ++i) h = tanh(h);
    return sum(h, 1, true) + both;
  }
};

TEST(CheckpointEffects, OfAnInputOfTwoModulesKeepItForBoth) {
  const Trained plain = train(seeded<Fork>(), regress<Fork>, {});
  EXPECT_TRUE(advises(advice_of(plain), {"first", "second"}));
  check_promises(seeded<Fork>, regress<Fork>, plain);
}

// ---- who else holds what a module makes

/// Keeps results and inner tensors in members, until they are overwritten, and makes some for nothing.
struct Hoarder : nn::Module {
  nn::Linear fc{32, 32};
  Tensor inner, result;
  bool keeps_inner = false, keeps_result = false, wastes = false;
  Hoarder() { register_module("fc", fc); }
  Tensor forward(const Tensor& x) override {
    Tensor h = tanh(sigmoid(tanh(fc(x))));
    if (wastes) tanh(tanh(tanh(tanh(tanh(tanh(h))))));
    if (keeps_inner) inner = h;
    h = tanh(sigmoid(h));
    if (keeps_result) result = h;
    return h;
  }
};
struct Hoarders : nn::Module {
  std::vector<std::shared_ptr<Hoarder>> blocks;
  nn::Linear head{32, 32};
  explicit Hoarders(void (*set)(Hoarder&)) {
    for (int i = 0; i < 4; ++i) {
      register_module("b" + std::to_string(i), blocks.emplace_back(std::make_shared<Hoarder>()));
      set(*blocks.back());
    }
    register_module("head", head);
  }
  // What follows a block keeps nothing of what it gets.
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (const auto& b : blocks) h = (*b)(h)*0.5;
    return head(h);
  }
};

TEST(CheckpointEffects, OfWhatIsHeldElsewhereHold) {
  for (void (*set)(Hoarder&) : {+[](Hoarder&) {}, +[](Hoarder& h) { h.keeps_inner = true; },
                                +[](Hoarder& h) { h.keeps_result = true; }, +[](Hoarder& h) { h.wastes = true; }}) {
    const auto make = [set] {
      manual_seed(5);
      return Hoarders(set);
    };
    for (const auto step : {regress<Hoarders>, accumulate<Hoarders>}) {
      const Trained plain = train(make(), step, {});
      const auto [saved, promised] = check_promises(make, step, plain);
      EXPECT_GT(promised, 0u);
      EXPECT_GT(promised, saved / 2);
    }
  }
}

// ---- what is saved goes to the host

TEST(CheckpointEffects, UnderSaveOnCpuAreNoneAndTheReportSaysWhy) {
  const test::FakeGpu fake;
  const test::TemporaryDir dir;
  const auto record = [&](std::size_t keep) {
    const auto training = [keep] {
      return [net = seeded<Mlp>(), keep]() mutable {
        const Step step;
        Tensor loss;
        {
          const SaveOnCpu offload({.keep = keep, .min_bytes = 1024});
          loss = sum(net(randn({128, 32})) * 0.1);
        }
        loss.backward();
      };
    };
    predict(fake.gpu, training, {.recording = dir / "run.memlog"});
    return read_log(dir / "run.memlog");
  };
  const auto gpu_of = [](const Log& log) {
    return *std::find_if(log.devices.begin(), log.devices.end(),
                         [](const DeviceLog& d) { return d.name.starts_with("meta"); });
  };
  const std::vector<std::string> none;
  const Log stays = record(SaveOnCpuOptions::everything), goes = record(std::size_t{64} << 10);
  EXPECT_FALSE(advise(stays, gpu_of(stays)).empty());
  EXPECT_EQ(why_not_advised(stays, gpu_of(stays)), none);
  EXPECT_TRUE(advise(goes, gpu_of(goes)).empty());
  EXPECT_EQ(why_not_advised(goes, gpu_of(goes)),
            std::vector<std::string>{"no checkpoint is advised, because saved tensors go to the host: SaveOnCpu's "
                                     "`keep` is how many bytes stay"});
}

TEST(CheckpointEffects, BesideAnOptimizersStateOnTheHostHold) {
  const test::FakeGpu fake;
  const test::TemporaryDir dir;
  const auto training = [] {
    return
        [net = seeded<Mlp>(), state = zeros({64, 64}, DType::f32, default_device(), Role::optimizer_state)]() mutable {
          const Step step;
          state.storage().evict();
          sum(net(randn({128, 32})) * 0.1).backward();
          state.storage().restore();
        };
  };
  predict(fake.gpu, training, {.recording = dir / "run.memlog"});
  const Log log = read_log(dir / "run.memlog");
  const auto gpu = std::find_if(log.devices.begin(), log.devices.end(),
                                [](const DeviceLog& d) { return d.name.starts_with("meta"); });
  EXPECT_FALSE(advise(log, *gpu).empty());
}

// ---- random models

/// Does what its program says, with children that may be shared, and skips.
struct Random : nn::Module {
  nn::Linear fc{32, 32};
  nn::Dropout dropout{0.2};
  std::vector<std::shared_ptr<Random>> children;
  std::vector<int> program;

  Random(std::mt19937& random, int depth) {
    register_module("fc", fc);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int i = 0; depth > 0 && i < 2; ++i) {
      children.push_back(std::make_shared<Random>(random, depth - 1));
      register_module(std::string("c") + std::to_string(i), children.back());
    }
    for (int i = 0, n = 3 + below(4); i < n; ++i) program.push_back(below(depth > 0 ? 13 : 7));
    program.push_back(2);  // a parameter at least
    if (depth > 0 && below(3) == 0) children.back()->set_checkpointed();
  }

  Tensor run(const Tensor& x, const Tensor& skip) {
    Tensor h = x;
    for (const int op : program) {
      Random* child = op < 7 ? nullptr : children[op % 2].get();
      if (op == 0) h = tanh(h);
      if (op == 1) h = sigmoid(h);
      if (op == 2) h = fc(h);
      if (op == 3) h = h + x;
      if (op == 4) h = h * skip;
      if (op == 5) h = h * 0.5;
      if (op == 6) h = dropout(h);
      if (op == 7 || op == 8) h = (*child)(h);
      if (op == 9 || op == 10) h = child->join(h, skip);
      if (op >= 11) {
        const auto [a, b] = child->split(h);
        h = a + b;
      }
    }
    return h;
  }
  Tensor forward(const Tensor& x) override { return run(x, x); }
  Tensor join(const Tensor& x, const Tensor& skip) {
    return nn::call(
        *this, [this](const Tensor& x, const Tensor& skip) { return run(x, skip); }, x, skip);
  }
  std::pair<Tensor, Tensor> split(const Tensor& x) {
    const auto body = [this](const Tensor& x) {
      const Tensor y = tanh(x);
      return std::pair(run(y, x), y);
    };
    return nn::call(*this, body, x);
  }
};

TEST(CheckpointEffects, OfRandomModelsAreNeverLessThanPromised) {
  std::size_t saved = 0, promised = 0;
  for (unsigned seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    const auto make = [&] {
      manual_seed(seed);
      std::mt19937 random(seed);
      return Random(random, 2);
    };
    const int batches = seed % 3 == 0 ? 2 : 1;
    const auto step = [&](Random& net) {
      std::vector<float> losses;
      for (int i = 0; i < batches; ++i) losses.push_back(regress(net).at(0));
      return losses;
    };
    // What is checkpointed already stays so.
    Random as_it_is = make();
    std::vector<std::string> checkpointed;
    for (const auto& [path, module] : as_it_is.named_modules())
      if (module->is_checkpointed()) checkpointed.push_back(path);
    const Trained plain = train(make(), step, checkpointed);
    for (const Advice& a : advice_of(plain)) {
      SCOPED_TRACE(a.text());
      std::vector<std::string> all = checkpointed;
      all.insert(all.end(), a.modules.begin(), a.modules.end());
      const Trained with = train(make(), step, all);
      EXPECT_LE(with.peak, a.peak_then);
      EXPECT_EQ(with.losses, plain.losses);
      EXPECT_EQ(with.grads, plain.grads);
      saved += plain.peak - std::min(plain.peak, with.peak);
      promised += a.peak - a.peak_then;
    }
  }
  EXPECT_GT(promised, 0u);
  EXPECT_GT(promised, saved / 2);
}

}  // namespace
}  // namespace bytetape::memory
