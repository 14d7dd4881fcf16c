// Answers questions of bench/plans.py about one network: which modules may be checkpointed and what each costs and
// saves, whether a choice fits a limit, and what nn::fit chooses. Reads a line for each question, and prints JSON.
#include <bytetape/bytetape.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
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

class Questions {
 public:
  explicit Questions(std::string net) : net_(std::move(net)) {}

  /// {"net", "peak", "saved", "times", "modules": [{"path", "saves"}]}. `saved` bytes of the peak are saved for
  /// backward. `times` has the median forward time of each module, and of the step, in ms. It is empty if steps is 0.
  json describe(int steps) const {
    const memory::Prediction plain = predict({}, no_limit);
    const std::size_t saved = saved_peak(plain);
    json modules = json::array();
    Training training(net_, {});
    for (const auto& [path, module] : training.model().named_modules()) {
      if (path.empty()) continue;
      if (const std::size_t then = saved_peak(predict({path}, no_limit)); then < saved)
        modules.push_back({{"path", path}, {"saves", saved - then}});
    }
    return {{"net", net_},
            {"peak", plain.peak_allocated()},
            {"saved", saved},
            {"times", steps ? json(forward_times(steps)) : json::object()},
            {"modules", modules}};
  }

  json fits(std::size_t limit, const std::vector<std::string>& paths) const {
    const memory::Prediction p = predict(paths, limit);
    return {{"fits", p.fits()}, {"allocated", p.peak_allocated()}, {"reserved", p.peak_reserved()}};
  }

  json fit(std::size_t limit) const {
    const auto start = std::chrono::steady_clock::now();
    const nn::Fit found =
        nn::fit(Device::cpu(), limit, [&](const nn::MemoryOptions& options) { return Training(net_, options); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    json paths = json::array();
    for (const std::string& path : found.memory_options.checkpointed)
      paths.push_back(memory::plain_path(memory::intern(path)));
    return {{"fits", found.fits()}, {"modules", paths}, {"seconds", seconds.count()}};
  }

 private:
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

  memory::Prediction predict(const std::vector<std::string>& paths, std::size_t limit) const {
    const nn::MemoryOptions options{.checkpointed = paths};
    return memory::predict(Device::cpu(), [&] { return Training(net_, options); }, {.limit = limit});
  }
  static std::size_t saved_peak(const memory::Prediction& p) {
    return p.snapshot.statistics.by_role[static_cast<std::size_t>(memory::Role::saved)].peak;
  }

  /// The median forward time of each module, by path, and of the step, in ms.
  std::map<std::string, double> forward_times(int steps) const {
    const std::string path = std::filesystem::temp_directory_path() / ("plans-" + net_ + ".memlog");
    {
      const memory::Recording recording(path);
      Training training(net_, {});
      for (int i = 0; i <= steps; ++i) training();
    }
    const memory::Log log = memory::read_log(path);
    std::filesystem::remove(path);
    std::map<std::string, std::vector<double>> all;
    std::vector<memory::StepTime> measured = memory::step_times(log);
    measured.erase(measured.begin());
    for (const memory::StepTime& step : measured) {
      std::map<std::string, double> of_step{{"step", static_cast<double>(step.time())}};
      for (const memory::OpTime& r : step.rows)
        if (r.phase == memory::Phase::forward)
          for (memory::NameId m = memory::intern(log.names[r.module]); m; m = memory::parent_of(m))
            of_step[memory::plain_path(m)] += static_cast<double>(r.time);
      for (const auto& [name, time] : of_step) all[name].push_back(time);
    }
    std::map<std::string, double> medians;
    for (auto& [name, times] : all) {
      std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
      medians[name] = times[times.size() / 2] / 1e6;
    }
    return medians;
  }

  const std::string net_;
};

/// Answers "fit LIMIT" and "fits LIMIT PATH...".
json answer(const Questions& questions, const std::string& line) {
  std::istringstream words(line);
  std::string what, path;
  std::size_t limit = 0;
  words >> what >> limit;
  if (what == "fit") return questions.fit(limit);
  std::vector<std::string> paths;
  while (words >> path) paths.push_back(path);
  return questions.fits(limit, paths);
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Describes a network's modules, then answers the lines 'fit LIMIT' and 'fits LIMIT PATH...' with JSON."};
  std::string net = "resnet18";
  int steps = 0, threads = 0;
  app.add_option("--net", net, "network")
      ->check(CLI::IsMember({"resnet18", "unet", "transformer4", "transformer12"}))
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
