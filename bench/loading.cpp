// Times the transfer of batches to a GPU, training steps, and both together, and prints a JSON line. With perfect
// overlap, both together take as long as the longer one.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/harness.h"
#include "bench/training.h"

#include "bytetape/core/memory/allocator/pinned.h"

namespace {

using namespace bytetape;

struct Options {
  std::int64_t batch = 256, size = 224;
  int workers = 8, steps = 40;
};

/// A small network, whose step does not take much longer than the copy of its batch.
class Stem {
 public:
  void step(const Tensor& x, const Tensor& y) {
    optimizer_.zero_grad();
    cross_entropy(net_(x), y).backward();
    optimizer_.step();
  }

 private:
  nn::Sequential net_{nn::Conv2d(3, 64, 7, {.stride = 4, .padding = 3, .bias = false}), nn::BatchNorm2d(64), nn::ReLU(),
                      examples::GlobalAveragePool(), nn::Linear(64, 10)};
  optim::SGD optimizer_{net_.parameters(), {.lr = 0.01}};
};

/// Returns the milliseconds per batch of a pass through `loader` that calls `use` for each batch.
template <class F>
double per_batch(data::DataLoader& loader, int batches, const F& use) {
  const auto pass = [&](int wanted) {
    while (wanted > 0)
      for (const auto& [x, y] : loader) {
        use(x, y);
        if (--wanted == 0) break;
      }
  };
  const auto finish = [&] { synchronize(loader.options().device); };
  return bench::time(
             1, 1, [&] { pass(batches); }, finish)
             .median /
         batches / 1e6;
}

nlohmann::ordered_json measure(const Options& o) {
  const Device gpu = default_device();
  const std::int64_t images = 4 * o.batch;
  const data::TensorDataset set(randint(0, 256, {images, 3, o.size, o.size}, DType::u8, Device::cpu()),
                                randint(0, 10, images, DType::i64, Device::cpu()));
  const data::Normalize by{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  data::DataLoader here(set, {.batch_size = o.batch, .workers = o.workers, .prefetch = 8, .device = Device::cpu()});
  data::DataLoader there(set,
                         {.batch_size = o.batch, .workers = o.workers, .prefetch = 8, .device = gpu, .normalize = by});
  Stem stem;
  const auto nothing = [](const Tensor&, const Tensor&) {};
  const Tensor loaded = set.get(std::vector<std::int64_t>(static_cast<std::size_t>(o.batch))).x;
  const Tensor sent = memory::pinned_for(gpu) ? pin_memory(loaded, gpu) : loaded;
  const auto first = *there.begin();
  const auto ms = [&](const auto& f) { return bench::time(5, o.steps, f, [&] { synchronize(gpu); }).median / 1e6; };
  return {{"batch_bytes", sent.nbytes()},
          {"load_ms", per_batch(here, o.steps, nothing)},
          {"copy_ms", ms([&] { to(sent, gpu); })},
          {"load_and_copy_ms", per_batch(there, o.steps, nothing)},
          {"step_ms", ms([&] { stem.step(first.x, first.y); })},
          {"all_ms", per_batch(there, o.steps, [&](const Tensor& x, const Tensor& y) { stem.step(x, y); })}};
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times a loader's transfers to a GPU, training steps, and both together; prints a JSON line."};
  Options o;
  std::string device = "cuda";
  app.add_option("--device", device, "cuda; or cpu, on which nothing overlaps");
  app.add_option("--batch", o.batch, "images")->capture_default_str();
  app.add_option("--size", o.size, "height and width of an image, in pixels")->capture_default_str();
  app.add_option("--workers", o.workers, "threads that load batches")->capture_default_str();
  app.add_option("--steps", o.steps, "steps in a burst; seven bursts are timed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return bench::run("loading", [&] {
    const DefaultDevice there(Device::parse(device));
    std::cout << measure(o).dump() << std::endl;
  });
}
