// Answers questions of bench/plans.py about one network: which modules may be checkpointed or recompute cheap results,
// what each of these options costs and saves, whether a choice of options fits a limit, and what nn::fit chooses. Reads
// a line for each question, and prints JSON. An option is "checkpoint:PATH" or "recompute:PATH". The model's path is
// empty.
#include <bytetape/bytetape.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <vector>

#include "bench/harness.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"
#include "examples/cifar10/resnet.h"
#include "examples/gpt/model.h"

namespace {

using namespace bytetape;
using nlohmann::json;

// ---- networks

/// A U-Net with four levels: Ronneberger et al., "U-Net: convolutional networks for biomedical image segmentation",
/// 2015.
struct Twice : nn::Module {
  nn::Conv2d first, second;
  nn::BatchNorm2d norm1, norm2;
  Twice(std::int64_t in, std::int64_t out)
      : first(in, out, 3, {.padding = 1}), second(out, out, 3, {.padding = 1}), norm1(out), norm2(out) {
    register_module("first", first), register_module("norm1", norm1);
    register_module("second", second), register_module("norm2", norm2);
  }
  Tensor forward(const Tensor& x) override {
    return norm2(second(norm1(first(x), Activation::relu)), Activation::relu);
  }
};

struct UNet : nn::Module {
  nn::ModuleList<Twice> downs, ups;
  nn::Conv2d head;
  explicit UNet(std::int64_t width) : head(width, 2, 1) {
    downs.push_back(Twice(3, width));
    for (std::int64_t w = width; w < 8 * width; w *= 2) downs.push_back(Twice(w, 2 * w));
    for (std::int64_t w = 8 * width; w > width; w /= 2) ups.push_back(Twice(w + w / 2, w / 2));
    register_module("downs", downs), register_module("ups", ups), register_module("head", head);
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> skips{downs[0](x)};
    for (std::size_t i = 1; i < downs.size(); ++i)
      skips.push_back(downs[i](max_pool2d(skips.back(), {.kernel = 2, .stride = 2})));
    Tensor h = std::exchange(skips.back(), {});
    for (std::size_t i = 0; i < ups.size(); ++i) {
      skips.pop_back();
      h = ups[i](cat({interpolate(h, {.scale_factor = 2}), skips.back()}, 1));
    }
    return head(h);
  }
};

/// A chain: 12 blocks of convolution, batch norm and ReLU, each of the same size.
nn::Sequential chain() {
  nn::Sequential all;
  for (int i = 0; i < 12; ++i)
    all.push_back(nn::Sequential(nn::Conv2d(i ? 64 : 3, 64, 3, {.padding = 1}), nn::BatchNorm2d(64), nn::ReLU()));
  return all;
}

/// A model and its loss on new random data.
struct Network {
  std::unique_ptr<nn::Module> model;
  std::function<Tensor()> loss;
};

Tensor input_of(const Shape& shape) {
  return randn(shape, DType::f32, default_device(), default_generator(), memory::Role::input);
}
Tensor classes(std::int64_t count, const Shape& shape) {
  return randint(0, count, shape, DType::i64, default_device(), default_generator(), memory::Role::input);
}

Network network(const std::string& name) {
  Network n;
  if (name == "resnet18") {
    auto net = std::make_unique<nn::Sequential>(examples::resnet18());
    n.loss = [&net = *net] { return cross_entropy(net(input_of({128, 3, 32, 32})), classes(10, {128})); };
    n.model = std::move(net);
  } else if (name == "chain") {
    auto net = std::make_unique<nn::Sequential>(chain());
    n.loss = [&net = *net] {
      const Tensor y = net(input_of({32, 3, 32, 32}));
      return mean(y * y);
    };
    n.model = std::move(net);
  } else if (name == "unet") {
    auto net = std::make_unique<UNet>(16);
    n.loss = [&net = *net] {
      const Tensor y = net(input_of({16, 3, 96, 96}));
      return mean(y * y);
    };
    n.model = std::move(net);
  } else {
    const std::int64_t layers = name == "transformer4" ? 4 : 12;
    auto net = std::make_unique<examples::Gpt>(examples::GptSizes{
        .vocabulary = 256, .context = 128, .layers = layers, .heads = 6, .width = 192, .dropout = 0});
    n.loss = [&net = *net] { return net.loss(classes(256, {8, 128}), classes(256, {8, 128})); };
    n.model = std::move(net);
  }
  return n;
}

// ---- training

class Training {
 public:
  Training(const std::string& name, const nn::MemoryOptions& options) : network_(network(name)) {
    options.apply(*network_.model);
    sgd_.emplace(network_.model->parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  }
  Tensor operator()() {
    const memory::Step step;
    sgd_->zero_grad();
    const Tensor loss = network_.loss();
    loss.backward();
    sgd_->step();
    return loss.detach();
  }
  nn::Module& model() { return *network_.model; }

 private:
  Network network_;
  std::optional<optim::SGD> sgd_;
};

using ModuleOptions = std::vector<std::string>;

nn::MemoryOptions memory_options_of(const ModuleOptions& options) {
  nn::MemoryOptions all;
  for (const std::string& option : options) {
    const std::size_t colon = option.find(':');
    (option[0] == 'c' ? all.checkpointed : all.recomputing).push_back(option.substr(colon + 1));
  }
  return all;
}
ModuleOptions module_options_of(const nn::MemoryOptions& memory_options) {
  ModuleOptions options;
  const auto plain = [](const std::string& path) { return memory::plain_path(memory::intern(path)); };
  for (const std::string& path : memory_options.checkpointed) options.push_back("checkpoint:" + plain(path));
  for (const std::string& path : memory_options.recomputing) options.push_back("recompute:" + plain(path));
  return options;
}

// ---- measured times

/// Returns the median of times in nanoseconds, in ms.
double median_ms(std::vector<std::uint64_t> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(*middle) / 1e6;
}

using OpKey = std::tuple<memory::Phase, std::string, std::string>;  // phase, module, op

using Times = std::map<OpKey, std::vector<std::uint64_t>>;  // of the measured steps

/// Measures steps without options, and steps that recompute all cheap results, in turns, after one step of each. The
/// times of whole steps have the key {setup, "", ""}.
std::array<Times, 2> measured(const std::string& net, int steps) {
  const std::string path = std::filesystem::temp_directory_path() / ("plans-" + net + ".memlog");
  {
    const memory::Recording recording(path);
    Training plain(net, {}), recomputing(net, {.recomputing = {""}});
    for (int i = 0; i <= steps; ++i) plain(), recomputing();
  }
  const memory::Log log = memory::read_log(path);
  std::filesystem::remove(path);
  std::array<Times, 2> all;
  const std::vector<memory::StepTime> timed = memory::step_times(log);
  for (std::size_t i = 2; i < timed.size(); ++i) {
    Times& times = all[i % 2];
    times[{memory::Phase::setup, "", ""}].push_back(timed[i].time());
    for (const memory::OpTime& r : timed[i].rows)
      times[{r.phase, memory::plain_path(memory::intern(log.names[r.module])), log.names[r.op]}].push_back(r.time);
  }
  return all;
}

using Milliseconds = std::map<std::string, double>;

/// The forward of each module, which its checkpoint adds to a step, and the step.
Milliseconds checkpoint_times(const Times& plain) {
  Milliseconds ms;
  for (const auto& [key, times] : plain) {
    const auto& [phase, module, op] = key;
    if (phase == memory::Phase::setup) ms["step"] = median_ms(times);
    if (phase != memory::Phase::forward) continue;
    for (memory::NameId m = memory::intern(module); m; m = memory::parent_of(m))
      ms["checkpoint:" + memory::plain_path(m)] += median_ms(times);
  }
  return ms;
}

/// The kernels of each op of a predicted step.
std::map<OpKey, std::uint32_t> launches(const memory::Prediction& p) {
  std::map<OpKey, std::uint32_t> all;
  for (const memory::WorkCount& w : p.work)
    all[{w.phase, memory::plain_path(w.module), memory::name_of(w.op)}] += w.launches;
  return all;
}

// ---- questions

class Questions {
 public:
  explicit Questions(std::string net) : net_(std::move(net)) {}

  /// {"net", "peak", "saved", "times", "options": [{"option", "saves"}]}. `saved` bytes of the peak are saved for
  /// backward. `times` is empty if steps is 0.
  json describe(int steps) const {
    const memory::Prediction plain = predict({}, no_limit);
    const std::size_t saved = saved_peak(plain);
    std::map<OpKey, std::uint32_t> without = launches(plain);
    std::array<Times, 2> seen;
    if (steps) seen = measured(net_, steps);
    Milliseconds times = checkpoint_times(seen[0]);
    json options = json::array();
    Training training(net_, {});
    for (const auto& [path, module] : training.model().named_modules())
      for (const std::string kind : {"checkpoint:", "recompute:"}) {
        if (path.empty() && kind == "checkpoint:") continue;
        const memory::Prediction p = predict({kind + path}, no_limit);
        if (saved_peak(p) >= saved) continue;
        options.push_back({{"option", kind + path}, {"saves", saved - saved_peak(p)}});
        if (!steps || kind == "checkpoint:") continue;
        double& ms = times[kind + path] = 0;
        for (const auto& [op, count] : launches(p))
          if (count > without[op]) ms += std::max(median_ms(seen[1][op]) - median_ms(seen[0][op]), 0.0);
      }
    return {{"net", net_}, {"peak", plain.peak_allocated()}, {"saved", saved}, {"times", times}, {"options", options}};
  }

  json fits(std::size_t limit, const ModuleOptions& options) const {
    const memory::Prediction p = predict(options, limit);
    return {{"fits", p.fits()}, {"peak", (p.fits() ? p : predict(options, no_limit)).peak_allocated()}};
  }

  json fit(std::size_t limit) const {
    const std::clock_t start = std::clock();  // the process's time, because other programs may share the cores
    const nn::Fit found =
        nn::fit(Device::cpu(), limit, [&](const nn::MemoryOptions& options) { return Training(net_, options); });
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    return {{"fits", found.fits()}, {"options", module_options_of(found.memory_options)}, {"seconds", seconds}};
  }

 private:
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

  memory::Prediction predict(const ModuleOptions& options, std::size_t limit) const {
    return memory::predict(Device::cpu(), [&] { return Training(net_, memory_options_of(options)); }, {.limit = limit});
  }
  static std::size_t saved_peak(const memory::Prediction& p) {
    return p.snapshot.statistics.by_role[static_cast<std::size_t>(memory::Role::saved)].peak;
  }

  const std::string net_;
};

/// Answers "fit LIMIT" and "fits LIMIT OPTION...".
json answer(const Questions& questions, const std::string& line) {
  std::istringstream words(line);
  std::string what, option;
  std::size_t limit = 0;
  words >> what >> limit;
  if (what == "fit") return questions.fit(limit);
  ModuleOptions options;
  while (words >> option) options.push_back(option);
  return questions.fits(limit, options);
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{
      "Describes a network's modules, then answers the lines 'fit LIMIT' and 'fits LIMIT OPTION...' with JSON."};
  std::string net = "resnet18";
  int steps = 0, threads = 0;
  app.add_option("--net", net, "network")
      ->check(CLI::IsMember({"chain", "resnet18", "unet", "transformer4", "transformer12"}))
      ->capture_default_str();
  app.add_option("--steps", steps, "timed steps, of which the median counts; 0: none")->capture_default_str();
  app.add_option("--threads", threads, "CPU threads; default: all");
  CLI11_PARSE(app, argc, argv);
  return bench::run("plans", [&] {
    if (threads) set_num_threads(threads);
    // So that limits are of allocated bytes. A caching allocator reserves more, by how blocks happen to lie.
    memory::allocator(Device::meta(Device::cpu())).set_mode(memory::AllocationMode::direct);
    const Questions questions(net);
    std::cout << questions.describe(steps).dump() << std::endl;
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(questions, line).dump() << std::endl;
  });
}
