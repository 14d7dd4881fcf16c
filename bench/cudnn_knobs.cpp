// Looks for configurations of cuDNN's convolutions that are faster than its heuristics' proposals. Changes settings of
// the proposals' knobs at random, for the 3x3 convolutions of ResNet-18 in bf16, with deterministic engines. Also times
// forward with the sums that batch norm needs. Prints a JSON line for each convolution.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/cudnn_library.h"
#include "bytetape/bytetape.h"

namespace {

using namespace bytetape;
using cuda::CudnnTensor;
namespace fe = cudnn_frontend;
using Clock = std::chrono::steady_clock;
using Settings = std::unordered_map<fe::KnobType_t, std::int64_t>;

enum class Map { forward, input_grad, weight_grad };
constexpr const char* names[] = {"forward", "input_grad", "weight_grad"};

/// A 3x3 convolution of channels-last bf16 images.
struct Conv {
  std::int64_t n, channels, outputs, size, stride;
  std::int64_t output_size() const { return size / stride; }
};

constexpr Conv resnet18[] = {{0, 64, 64, 32, 1},  {0, 64, 128, 32, 2}, {0, 128, 128, 16, 1}, {0, 128, 256, 16, 2},
                             {0, 256, 256, 8, 1}, {0, 256, 512, 8, 2}, {0, 512, 512, 4, 1}};

/// The operands, in the order of their ids in the graph.
struct ConvOperands {
  explicit ConvOperands(const Conv& c)
      : x(channels_last({c.n, c.channels, c.size, c.size})),
        weight(channels_last({c.outputs, c.channels, 3, 3})),
        y(channels_last({c.n, c.outputs, c.output_size(), c.output_size()})),
        workspace(empty({most_workspace}, DType::u8)) {
    for (Tensor& sum : sums) sum = zeros({1, c.outputs, 1, 1});
  }
  static Tensor channels_last(const Shape& s) {
    return permute(to(randn({s[0], s[2], s[3], s[1]}), DType::bf16), {0, 3, 1, 2});
  }
  static constexpr std::int64_t most_workspace = std::int64_t{64} << 20;
  Tensor x, weight, y, workspace, sums[2];
};

/// A convolution as a graph of cuDNN.
class Problem : public bench::CudnnGraph {
 public:
  /// With `sums`, a forward pass also stores sums and sums of squares of each channel.
  Problem(const Conv& c, Map map, const ConvOperands& o, cudnnHandle_t handle, bool sums = false)
      : CudnnGraph(fe::DataType_t::BFLOAT16), o_(o) {
    const auto geometry = [&](auto attributes) {
      return attributes.set_padding({1, 1}).set_stride({c.stride, c.stride}).set_dilation({1, 1});
    };
    if (map == Map::forward) {
      const CudnnTensor y =
          graph_.conv_fprop(input(o.x), input(o.weight), geometry(fe::graph::Conv_fprop_attributes()));
      output(y, o.y);
      if (sums) {
        const auto attributes = fe::graph::Genstats_attributes().set_compute_data_type(fe::DataType_t::FLOAT);
        const auto both = graph_.genstats(y, attributes);
        for (std::size_t i = 0; i < 2; ++i) output(both[i], o.sums[i]);
      }
    } else if (map == Map::input_grad)
      output(graph_.conv_dgrad(input(o.y), input(o.weight), geometry(fe::graph::Conv_dgrad_attributes())), o.x);
    else
      output(graph_.conv_wgrad(input(o.y), input(o.x), geometry(fe::graph::Conv_wgrad_attributes())), o.weight);
    good(graph_.validate());
    good(graph_.build_operation_graph(handle));
  }
  /// Times plan `i`. Returns nullopt if cuDNN cannot run it, or if its first run takes more than `most` microseconds.
  std::optional<double> microseconds(std::int64_t i, const bench::CudnnOnStream& cudnn, double most) {
    try {
      std::int64_t bytes = 0;
      if (graph_.build_plan_at_index(i).is_bad() || graph_.get_workspace_size(bytes).is_bad()) return {};
      if (bytes > ConvOperands::most_workspace) return {};
      const auto run = [&] {
        cuda::CudnnPack pack = operands_;
        good(graph_.execute(cudnn.handle, pack, o_.workspace.write().data()));
      };
      run();  // loads the kernel
      cuda::check(cudaStreamSynchronize(cudnn.stream));
      const Clock::time_point start = Clock::now();
      for (int k = 0; k < 2; ++k) run();
      cuda::check(cudaStreamSynchronize(cudnn.stream));
      constexpr double launch = 60;  // us
      if (std::chrono::duration<double, std::micro>(Clock::now() - start).count() / 2 > most + launch) return {};
      return bench::time_captured(cudnn, 10, run).median / 1e3;
    } catch (const std::exception&) { return {}; }
  }

 private:
  static void good(fe::error_t status) {
    if (status.is_bad()) fail<Error>("cuDNN: ", status.get_message());
  }

  const ConvOperands& o_;
};

/// An engine and the settings of its knobs, and the time of a run.
struct Config {
  std::int64_t engine = 0;
  Settings settings;
  double us = 0;
  std::string name;
};

/// Returns the engine and the settings of a plan from its name, such as "eng62_k2=4_k13=0".
std::optional<Config> config_of(const std::string& name, fe::graph::Graph& graph, double us) {
  Config c;
  c.us = us, c.name = name;
  std::map<int, std::int64_t> values;  // by cuDNN's numbers of the knobs
  std::size_t at = name.find("eng");
  if (at == name.npos) return {};
  c.engine = std::atoll(name.c_str() + at + 3);
  while ((at = name.find("_k", at)) != name.npos) {
    at += 2;
    values[std::atoi(name.c_str() + at)] = std::atoll(name.c_str() + name.find('=', at) + 1);
  }
  std::vector<fe::Knob> knobs;
  if (graph.get_knobs_for_engine(c.engine, knobs).is_bad()) return {};
  for (const fe::Knob& k : knobs) {
    cudnnBackendKnobType_t number{};
    if (fe::convert_to_backend_knob_type(k.type, number) != CUDNN_STATUS_SUCCESS) continue;
    if (const auto v = values.find(static_cast<int>(number)); v != values.end()) c.settings[k.type] = v->second;
  }
  return c;
}

void only_deterministic(fe::graph::Graph& g) { g.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC}); }

/// The first reason in a message of cuDNN, which lists those of all engines.
std::string reason(const std::string& message) {
  const std::size_t at = message.find("Reason: ");
  return at == message.npos ? message : message.substr(at, message.find('\n', at) - at);
}

/// Times the heuristics' first proposals. The fastest comes first. Empty if none is deterministic. Throws Error
/// if cuDNN has none.
std::vector<Config> proposals(const Conv& c, Map map, const ConvOperands& o, const bench::CudnnOnStream& cudnn,
                              bool sums = false) {
  Problem p(c, map, o, cudnn.handle, sums);
  std::vector<Config> all;
  fe::error_t status = p.graph().create_execution_plans({fe::HeurMode_t::A});
  check<Error>(status.is_good(), "cuDNN: ", reason(status.get_message()));
  only_deterministic(p.graph());
  double best = 1e9;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(16, p.graph().get_execution_plan_count()); ++i) {
    std::string name;
    const auto us = p.microseconds(i, cudnn, 3 * best);
    if (!us || p.graph().get_plan_name_at_index(i, name).is_bad()) continue;
    best = std::min(best, *us);
    if (auto config = config_of(name, p.graph(), *us)) all.push_back(*config);
  }
  std::stable_sort(all.begin(), all.end(), [](const Config& a, const Config& b) { return a.us < b.us; });
  return all;
}

/// The time of a forward pass that also sums over the channels, as batch norm's statistics need. Null if cuDNN refuses
/// it, and for gradients.
nlohmann::json time_with_sums(const Conv& c, Map map, const ConvOperands& o, const bench::CudnnOnStream& cudnn) {
  if (map != Map::forward) return nullptr;
  try {
    const std::vector<Config> all = proposals(c, map, o, cudnn, true);
    return all.empty() ? nlohmann::json("no deterministic engine") : nlohmann::json(all.front().us);
  } catch (const Error& e) { return e.what(); }
}

/// Changes one or two settings to random values.
void change(Settings& settings, const std::vector<fe::Knob>& knobs, std::mt19937& random) {
  const auto pick = [&](std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random); };
  for (std::int64_t changes = 1 + pick(2); changes > 0; --changes) {
    const fe::Knob& k = knobs[static_cast<std::size_t>(pick(static_cast<std::int64_t>(knobs.size())))];
    const std::int64_t step = std::max<std::int64_t>(k.stride, 1);
    settings[k.type] = k.minValue + step * pick((k.maxValue - k.minValue) / step + 1);
  }
}

/// Changes settings of the fastest configurations for `seconds`, and returns the fastest one.
Config fastest_change(const Conv& c, Map map, const ConvOperands& o, const bench::CudnnOnStream& cudnn, double seconds,
                      std::vector<Config> known, int& tried) {
  constexpr std::size_t kept = 4;  // configurations whose settings are changed
  std::mt19937 random(1);
  std::set<std::pair<std::int64_t, std::map<int, std::int64_t>>> seen;
  const Clock::time_point start = Clock::now();
  for (std::size_t turn = 0; std::chrono::duration<double>(Clock::now() - start).count() < seconds; ++turn) {
    known.resize(std::min(known.size(), kept));
    Config config = known[turn % known.size()];
    Problem p(c, map, o, cudnn.handle);
    std::vector<fe::Knob> knobs;
    if (p.graph().get_knobs_for_engine(config.engine, knobs).is_bad() || knobs.empty()) break;
    change(config.settings, knobs, random);
    std::map<int, std::int64_t> sorted;
    for (const auto& [type, value] : config.settings) sorted[static_cast<int>(type)] = value;
    if (!seen.emplace(config.engine, sorted).second) continue;
    try {
      if (p.graph().create_execution_plan(config.engine, config.settings).is_bad()) continue;
      only_deterministic(p.graph());
      const auto us = p.microseconds(0, cudnn, 1.5 * known.front().us);
      if (!us) continue;
      ++tried;
      config.us = *us;
      (void)p.graph().get_plan_name_at_index(0, config.name);
    } catch (const std::exception&) { continue; }
    known.insert(std::upper_bound(known.begin(), known.end(), config,
                                  [](const Config& a, const Config& b) { return a.us < b.us; }),
                 config);
  }
  return known.front();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times random settings of cuDNN's convolutions; prints a JSON line for each convolution."};
  std::int64_t batch = 128;
  double seconds = 4;
  int only = -1, number = 0;
  app.add_option("--batch", batch, "images; default: 128")->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds, "of the search, for each convolution; default: 4")->check(CLI::PositiveNumber);
  app.add_option("--only", only, "the number of a convolution, from 0 on; default: all");
  CLI11_PARSE(app, argc, argv);
  return bench::run("cudnn_knobs", [&] {
    const DefaultDevice here(Device::cuda());
    manual_seed(0);
    const bench::CudnnOnStream cudnn;
    for (Conv c : resnet18)
      for (const Map map : {Map::forward, Map::input_grad, Map::weight_grad}) {
        if (only >= 0 && only != number++) continue;
        c.n = batch;
        const ConvOperands o(c);
        int tried = 0;
        const std::vector<Config> proposed = proposals(c, map, o, cudnn);
        check<Error>(!proposed.empty(), "cuDNN proposes nothing");
        const Config found = fastest_change(c, map, o, cudnn, seconds, proposed, tried);
        std::cout << nlohmann::ordered_json{{"conv", detail::concat(c.channels, "to", c.outputs, "_", c.size, "x",
                                                                    c.size, "_s", c.stride, "_b", c.n)},
                                            {"map", names[static_cast<int>(map)]},
                                            {"proposal_us", proposed.front().us},
                                            {"found_us", found.us},
                                            {"ratio", found.us / proposed.front().us},
                                            {"tried", tried},
                                            {"proposal", proposed.front().name},
                                            {"found", found.name},
                                            {"with_sums_us", time_with_sums(c, map, o, cudnn)},
                                            {"cudnn", cudnnGetVersion()}}
                         .dump()
                  << std::endl;
      }
  });
}
