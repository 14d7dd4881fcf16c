// What one tensor takes.
#include <fmt/format.h>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

constexpr std::size_t segment = std::size_t{2} << 20;  // that small blocks share
constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 511) / 512 * 512; }
constexpr Look at_rest{.has_peaks = false};

/// Of results of `bytes`.
Figures results(std::size_t bytes, std::optional<std::size_t> reserved = {}) {
  return {bytes, {{memory::Role::temporary, bytes}}, reserved};
}

}  // namespace

Stop tensor_stop() {
  const Shown one_tensor = SHOWN([](Watch& at) {
    memory::empty_cache();
    at();
    Tensor x = randn({1024});
    at();
    x = Tensor();
    at();
    memory::empty_cache();
    at();
  });
  return {
      "Why are 4 KiB of a tensor 2 MiB of the card?",
      "Memory is taken from the system in segments, and handed out in blocks: asking a driver for each tensor would "
      "cost more than most ops do.",
      {{"", one_tensor, {results(0, 0), results(4096, segment), results(0, segment), results(0, 0)}, at_rest}},
      "The tensor is 4,096 bytes; its segment is 2 MiB, of which the rest is for the tensors to come. A block that "
      "was freed stays cached, so a card looks full (nvidia-smi sees what is reserved) where the program holds "
      "nothing. PyTorch's figures are the same, all eight."};
}

Stop rounding_stop() {
  const Shown some_sizes = SHOWN([](Watch& at) {
    for (const int n : {0, 1, 128, 129, 256, 800, 1024, 1025}) {
      const Tensor x = empty(n);
      at(fmt::format("{:>4} floats, {:>4} bytes", n, 4 * n));
    }
  });
  const Shown all_sizes = SHOWN([](Watch& at) {
    for (int n = 0; n < 1050; ++n) {
      const Tensor x = empty(n);
      at();
    }
  });
  std::vector<Figures> of_some, of_all;
  for (const std::size_t n : {0, 1, 128, 129, 256, 800, 1024, 1025}) of_some.push_back(results(rounded(4 * n)));
  for (std::size_t n = 0; n < 1050; ++n) of_all.push_back(results(rounded(4 * n)));
  return {"Why 512?",
          "Sizes are rounded up to 512 bytes: every block then begins where a kernel may load its widest, and what one "
          "tensor frees fits the next one of nearly its size.",
          {{"", some_sizes, of_some, at_rest},
           {"Every size up to 1,049 floats:", all_sizes, of_all, {.has_rows = false, .has_steps = true}}},
          "A bias of 10 floats takes as much as one of 128, which counts only where small tensors are many. The books "
          "keep what was asked for, too."};
}

Stop dtype_stop() {
  const Shown dtypes = SHOWN([](Watch& at) {
    using enum DType;
    for (const DType dtype : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
      const Tensor x = zeros({1024}, dtype);
      at(detail::concat(dtype));
    }
  });
  std::vector<Figures> expected;
  for (const std::size_t size : {8, 4, 2, 2, 8, 4, 1, 1}) expected.push_back(results(1024 * size));
  return {"What does an element take?",
          "A thousand and twenty-four of them, in each dtype.",
          {{"", dtypes, expected, at_rest}},
          "bf16 and f16 halve f32, and a bool takes a byte."};
}

}  // namespace bytetape::examples
