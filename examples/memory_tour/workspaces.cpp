// The scratch of kernels.
#include <fmt/format.h>

#include <algorithm>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

using memory::Role;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::optional<std::size_t> caps[] = {0, 4 * mib, std::nullopt};
constexpr Look peaks{.bars_are_peaks = true};

std::string named(std::optional<std::size_t> cap) {
  return cap ? fmt::format("at most {} MiB", *cap / mib) : "without a cap";
}

/// The GPU that the tour runs on, else what stands in for one.
Device a_gpu() {
  const Device here = default_device();
  return here.type == DeviceType::cuda ? here : Device::meta(Device::cuda());
}

Shown convolution() {
  return SHOWN([](Watch& at) {
    nn::Conv2d conv(32, 32, 3, {.padding = 1});
    const Tensor x = batch({8, 32, 32, 32});
    at();
    const Tensor y = conv(x);
    at();
    sum(y).backward();
    at();
  });
}

Shown convolution_by_threads() {
  return SHOWN([](Watch& at) {
    const auto convolution = [] {
      nn::Conv2d(32, 32, 3, {.padding = 1})(batch({8, 32, 32, 32}));
      return [] {};
    };
    for (const int threads : {1, 2, 4, 16}) {
      const auto p = memory::predict(Device::cpu(), convolution, {.threads = threads});
      at(fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"), p.snapshot.statistics);
    }
  });
}

Shown capped_convolution() {
  return SHOWN([](Watch& at) {
    const DefaultDevice here(a_gpu());
    for (const auto cap : caps) {
      cuda::set_workspace_cap(default_device(), cap);
      nn::Conv2d conv(64, 64, 3, {.padding = 1});
      conv(batch({16, 64, 32, 32}));
      at("convolution, " + named(cap));
    }
  });
}

Shown capped_product() {
  return SHOWN([](Watch& at) {
    const DefaultDevice here(a_gpu());
    for (const auto cap : caps) {
      cuda::set_workspace_cap(default_device(), cap);
      const Tensor x = batch({512, 512});
      matmul(x, x);
      at("product, " + named(cap));
    }
  });
}

}  // namespace

Stop workspace_stop() {
  std::vector<Figures> of_products;
  for (const auto cap : caps) {
    const std::size_t x = mib, workspace = std::min(cap.value_or(8 * mib), 8 * mib);
    of_products.push_back({x, {{Role::input, x}}, {}, 2 * x + workspace});
  }
  return {
      "Where do bytes come from that no tensor holds?",
      "From the scratch of kernels: a convolution or a product is faster with some. It is booked as workspace, for the "
      "length of one op.",
      {{"", convolution(), {}, peaks},
       {"On the CPU it may grow with the threads; a prediction for sixteen starts none of them:",
        convolution_by_threads(),
        {},
        peaks},
       {"On a GPU it can be capped, for less memory and maybe less speed. What stands in for a GPU knows it as well. "
        "Without any, cuDNN has nothing, and convolutions are products of matrices, some pixels at a time:",
        capped_convolution(),
        {},
        peaks},
       {"And of a product, cuBLASLt's:", capped_product(), of_products, peaks}},
      "Scratch comes from the same cache as tensors, so that it is theirs again behind the op. What stays of the "
      "convolution beside its result is x as it reads it, channels-last: of images in that layout there is no copy. "
      "What lies outside the books, CUDA's context and the code of libraries, is measured and named: "
      "memory::Snapshot::outside."};
}

}  // namespace bytetape::examples
