#pragma once
#include <algorithm>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/philox.h"

namespace bytetape::cpu {

inline constexpr int block_counters = 64;  // drawn at a time: enough for the compiler to vectorise philox()
inline constexpr std::int64_t block_words = 4 * block_counters;

/// Words [256 b, 256 (b + 1)) after `state`.
inline void draw_block(const PhiloxState& state, std::int64_t b, std::uint32_t* words) {
  alignas(64) std::uint32_t drawn[4][block_counters];
  philox(state.seed, state.offset + static_cast<std::uint64_t>(b) * block_counters, drawn);
  for (int i = 0; i < block_counters; ++i)
    for (int w = 0; w < 4; ++w) words[4 * i + w] = drawn[w][i];
}

/// f(first element, count, words) for each block of elements that take words_each words each, in parallel.
template <int words_each, class F>
void for_each_block(const PhiloxState& state, std::int64_t n, const F& f) {
  constexpr std::int64_t size = block_words / words_each;
  parallel_for((n + size - 1) / size, grain / 4 / size, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::uint32_t words[block_words];
    for (std::int64_t b = begin; b < end; ++b) {
      draw_block(state, b, words);
      f(b * size, std::min(size, n - b * size), words);
    }
  });
}

/// The loop over y and others whose element number i is number i of the row-major order, whatever the strides.
template <class... X>
auto row_major_loop(const View& y, const X&... others) {
  const ConstView order(y.data(), DType::u8, y.device, y.shape, contiguous_strides(y.shape));  // leads, never read
  return make_loop<sizeof...(X) + 2>({&order, &y, &others...});
}

}  // namespace bytetape::cpu
