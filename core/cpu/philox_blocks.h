#pragma once
#include <algorithm>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/philox.h"

namespace bytetape::cpu {

inline constexpr int block_counters = 64;  // counters per block: enough for the compiler to vectorise philox()
inline constexpr std::int64_t block_words = 4 * block_counters;

/// Draws words [256 b, 256 (b + 1)) after `state`.
inline void draw_block(const PhiloxState& state, std::int64_t b, std::uint32_t* words) {
  alignas(64) std::uint32_t drawn[4][block_counters];
  philox(state.seed, state.offset + static_cast<std::uint64_t>(b) * block_counters, drawn);
  for (int i = 0; i < block_counters; ++i)
    for (int w = 0; w < 4; ++w) words[4 * i + w] = drawn[w][i];
}

/// Calls f(first element, count, words) for each block of elements, in parallel. Each element takes words_each words.
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

/// Calls f(i, word) for words first + i after `state`, i < n, on the calling thread.
template <class F>
void for_each_word(const PhiloxState& state, std::int64_t first, std::int64_t n, const F& f) {
  alignas(64) std::uint32_t words[block_words];
  for (std::int64_t at = first; at < first + n;) {
    const std::int64_t block = at / block_words, end = std::min(first + n, (block + 1) * block_words);
    draw_block(state, block, words);
    for (; at < end; ++at) f(at - first, words[at - block * block_words]);
  }
}

/// Returns a loop over y and others in row-major order, for any strides.
template <class... X>
auto row_major_loop(const View& y, const X&... others) {
  const ConstView order(y.data(), DType::u8, y.device, y.shape, contiguous_strides(y.shape));  // the order; not read
  return make_loop<sizeof...(X) + 2>({&order, &y, &others...});
}

}  // namespace bytetape::cpu
