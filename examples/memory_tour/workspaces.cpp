// The workspaces of kernels.
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

/// Returns the GPU that the tour runs on, else a meta device that simulates one.
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
    const std::size_t x = mib, workspace = std::min(cap.value_or(16 * mib), 16 * mib);
    of_products.push_back({x, {{Role::input, x}}, {}, 2 * x + workspace});
  }
  return {
      "Which bytes belong to no tensor?",
      "The workspaces of kernels. They make convolutions and matrix products faster. A workspace is allocated for one "
      "op, "
      "with the role workspace.",
      {{"", convolution(), {}, peaks},
       {"On the CPU the workspace may grow with the number of threads. A prediction for 16 threads starts none of "
        "them:",
        convolution_by_threads(),
        {},
        peaks},
       {"On a GPU the workspace can be capped, for less memory and maybe less speed. A prediction for a GPU follows "
        "the "
        "cap. With a cap of 0 no cuDNN algorithm fits, and a convolution is computed as matrix products, some pixels "
        "at "
        "a time:",
        capped_convolution(),
        {},
        peaks},
       {"The workspace of a matrix product, for cuBLASLt:", capped_product(), of_products, peaks}},
      "Workspaces come from the same cache as tensors, so tensors can use the bytes after the op. Besides its result, "
      "the convolution leaves a channels-last copy of x. Images that are channels-last already are not copied. "
      "Memory outside the allocator, such as CUDA's context and the code of libraries, is measured too: see "
      "memory::Snapshot::outside."};
}

}  // namespace bytetape::examples
