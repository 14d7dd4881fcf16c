// Prints the bytes that each rank holds between the steps of a transformer, as dist::Sharded divides them: by the
// formula of ZeRO, as predicted, and as measured. Fails if prediction and measurement differ.
//   mpirun -n 4 build/release/bench/sharding
#include <CLI/CLI.hpp>
#include <array>
#include <iomanip>
#include <iostream>
#include <optional>
#include <vector>

#include "bench/harness.h"

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/stats.h"

namespace {

using namespace bytetape;
using dist::Shard;
using memory::Role;

constexpr std::int64_t width = 256, vocabulary = 1000, length = 32;

struct Model : nn::Module {
  nn::Embedding tokens{vocabulary, width};
  nn::Sequential layers;
  nn::Linear head{width, vocabulary};
  Model() {
    for (int i = 0; i < 4; ++i)
      layers.push_back(nn::TransformerEncoderLayer(width, 4, {.dim_feedforward = 4 * width, .dropout = 0}));
    register_module("tokens", tokens);
    register_module("layers", layers);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) override { return head(layers(tokens(x))); }
};

struct Options {
  bool is_autocast = false;
  std::optional<DType> parameter_dtype;
};

/// Returns a step of training.
std::function<void()> training(Shard shard, const Options& options) {
  struct State {
    Model model;
    std::optional<dist::Sharded> sharded;
    std::optional<optim::AdamW> adamw;
  };
  auto state = std::make_shared<State>();
  state->sharded.emplace(
      state->model, dist::init(),
      dist::ShardedOptions{.shard = shard, .gathered_bytes = 0, .parameter_dtype = options.parameter_dtype});
  state->adamw.emplace(state->sharded->parameters());
  return [state, options] {
    const memory::Step step;
    const Tensor x = randint(0, vocabulary, {2, length}, DType::i64);
    const Tensor t = randint(0, vocabulary, {2 * length}, DType::i64);
    Tensor loss;
    {
      const Autocast autocast(options.is_autocast ? DType::bf16 : DType::f32);
      loss = cross_entropy(reshape(state->model(x), {-1, vocabulary}), t);
    }
    loss.backward();
    state->adamw->step();
  };
}

/// The bytes of what a rank holds from step to step.
std::size_t held(const memory::Statistics& s) {
  std::size_t bytes = 0;
  for (const Role role :
       {Role::parameter, Role::gradient, Role::optimizer_state, Role::communication, Role::autocast_copy})
    bytes += s.by_role[static_cast<std::size_t>(role)].current;
  return bytes;
}

std::size_t measured(Shard shard, const Options& options) {
  const std::size_t before = held(memory::stats({}));
  const auto step = training(shard, options);
  for (int i = 0; i < 2; ++i) step();
  return held(memory::stats({})) - before;
}

std::size_t predicted(Shard shard, const Options& options) {
  const dist::Group world = dist::init();
  const auto prediction =
      memory::predict({}, [&] { return training(shard, options); }, {.world_size = world.size(), .rank = world.rank()});
  return held(prediction.snapshot.statistics);
}

/// The bytes of a parameter with AdamW, by the paper (Rajbhandari et al., "ZeRO", 2020, figure 1): parameters and
/// gradients take 4 bytes, or 2 with parts of 4 bytes beside them. Autocast keeps a copy of 2 bytes of parameters that
/// are not sharded. If parameters are sharded, their 16 bits exist only while they are gathered.
double formula(Shard shard, const Options& options, int ranks) {
  const double n = ranks;
  if (options.parameter_dtype) {
    if (shard == Shard::optimizer_state) return 4 + 12 / n;
    if (shard == Shard::gradients) return 2 + 14 / n;
    return 14 / n;
  }
  const double copy = options.is_autocast && (shard != Shard::parameters || ranks == 1) ? 2 : 0;
  if (shard == Shard::optimizer_state) return 8 + 8 / n + copy;
  if (shard == Shard::gradients) return 4 + 12 / n + copy;
  return 16 / n + copy;
}

void print_table(const Options& options) {
  const dist::Group world = dist::init();
  std::int64_t parameters = 0;
  for (const Tensor& p : Model().parameters()) parameters += p.numel();
  bool is_equal = true;
  for (const auto& [shard, name] : {std::pair{Shard::optimizer_state, "optimizer_state"},
                                    {Shard::gradients, "gradients"},
                                    {Shard::parameters, "parameters"}}) {
    const std::size_t expected = predicted(shard, options), bytes = measured(shard, options);
    is_equal &= expected == bytes;
    const double by_formula = formula(shard, options, world.size()) * static_cast<double>(parameters);
    std::cout << std::left << std::setw(16) << name << std::right << (options.parameter_dtype ? " 16 bits" : " 32 bits")
              << ", rank " << world.rank() << " of " << world.size() << std::fixed << std::setprecision(0)
              << ", bytes: formula " << std::setw(11) << by_formula << ", predicted " << std::setw(11) << expected
              << ", measured " << std::setw(11) << bytes << ", padding " << static_cast<double>(bytes) - by_formula
              << '\n'
              << std::flush;
  }
  check<ValueError>(is_equal, "prediction and measurement differ");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Prints the bytes that each rank holds, by formula, predicted and measured");
  app.add_flag("--autocast", options.is_autocast, "bf16 products; default: f32");
  CLI11_PARSE(app, argc, argv);
  return dist::run([&] {
    print_table(options);
    if (options.is_autocast) return;
    options.parameter_dtype = DType::bf16;
    print_table(options);
  });
}
