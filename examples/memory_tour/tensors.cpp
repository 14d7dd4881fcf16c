// The memory of one tensor.
#include <fmt/format.h>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

constexpr std::size_t segment = std::size_t{2} << 20;  // bytes of a segment for small blocks
constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 511) / 512 * 512; }
constexpr Look at_rest{.has_peaks = false};

/// Returns the figures if `bytes` of results are held.
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
      "Why does a tensor of 4 KiB take 2 MiB of the device?",
      "The allocator takes segments from the system and hands out blocks of them, because a system call for each "
      "tensor would take longer than most ops.",
      {{"", one_tensor, {results(0, 0), results(4096, segment), results(0, segment), results(0, 0)}, at_rest}},
      "The tensor has 4,096 bytes. Its segment has 2 MiB, and the rest is for later tensors. A freed block stays in "
      "the "
      "cache. So a GPU can look full in nvidia-smi, which shows reserved bytes, although the program holds nothing. "
      "All eight figures are the same in PyTorch."};
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
  return {
      "Why are sizes rounded up to 512 bytes?",
      "Sizes are rounded up to multiples of 512 bytes. Then each block is aligned for a kernel's widest loads, and a "
      "freed block fits the next tensor of nearly the same size.",
      {{"", some_sizes, of_some, at_rest},
       {"Every size up to 1,049 floats:", all_sizes, of_all, {.has_rows = false, .has_steps = true}}},
      "A bias of 10 floats takes as much as one of 128. This matters only if there are many small tensors. The "
      "statistics also have the requested bytes."};
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
  return {"How much memory does an element take?",
          "Tensors of 1,024 elements, one for each dtype.",
          {{"", dtypes, expected, at_rest}},
          "bf16 and f16 take half of f32, and a bool takes one byte."};
}

}  // namespace bytetape::examples
