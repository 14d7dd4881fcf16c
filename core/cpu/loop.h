#pragma once
#include <array>
#include <cstdint>

#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/view.h"
#include "bytetape/core/walk.h"

namespace bytetape::cpu {

/// Returns the host address of v's first element.
inline char* address(const ConstView& v) {
  return static_cast<char*>(const_cast<void*>(v.is_constant() ? &v.constant_bits() : v.data()));
}

/// A walk over K operands, and the addresses where they begin. Strides are in bytes.
template <std::size_t K>
struct Loop : Walk<K> {
  std::array<char*, K> data;
};

template <std::size_t K>
Loop<K> make_loop(const std::array<const ConstView*, K>& operands) {
  std::array<const Strides*, K> strides;
  for (std::size_t k = 0; k < K; ++k) strides[k] = &operands[k]->strides;
  Loop<K> loop{{operands[0]->shape, strides}, {}};
  loop.complete();
  for (std::size_t k = 0; k < K; ++k) {
    loop.data[k] = address(*operands[k]);
    for (std::int64_t& step : loop.strides[k]) step *= static_cast<std::int64_t>(size_of(operands[k]->dtype));
  }
  return loop;
}

/// Calls row(n, pointers, byte steps) for every innermost run of the elements [begin, end), in the loop's order.
template <std::size_t K, class F>
void walk_rows(const Loop<K>& w, std::int64_t begin, std::int64_t end, F&& row) {
  const int inner = w.shape.size() - 1;
  std::array<std::int64_t, K> step;
  for (std::size_t k = 0; k < K; ++k) step[k] = w.strides[k][inner];
  Dims at = Dims::filled(inner + 1, 0);
  std::array<char*, K> p = w.data;
  for (std::int64_t rest = begin, d = inner; d >= 0; --d) {
    const int i = static_cast<int>(d);
    at[i] = rest % w.shape[i];
    rest /= w.shape[i];
    for (std::size_t k = 0; k < K; ++k) p[k] += at[i] * w.strides[k][i];
  }
  for (std::int64_t done = begin; done < end;) {
    const std::int64_t n = std::min(w.shape[inner] - at[inner], end - done);
    row(n, p, step);
    done += n;
    if (done >= end) break;
    for (std::size_t k = 0; k < K; ++k) p[k] -= at[inner] * step[k];
    at[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      for (std::size_t k = 0; k < K; ++k) p[k] += w.strides[k][d];
      if (++at[d] < w.shape[d]) break;
      for (std::size_t k = 0; k < K; ++k) p[k] -= at[d] * w.strides[k][d];
      at[d] = 0;
    }
  }
}

/// walk_rows() over all elements, in parallel. A thread gets at least `grain_size` elements.
template <std::size_t K, class F>
void for_each_row(const Loop<K>& w, F&& row, std::int64_t grain_size = grain) {
  parallel_for(numel(w.shape), grain_size,
               [&](std::int64_t begin, std::int64_t end) { walk_rows(w, begin, end, row); });
}

}  // namespace bytetape::cpu
