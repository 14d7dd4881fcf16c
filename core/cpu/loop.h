#pragma once
#include <array>
#include <cstdint>

#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/view.h"

namespace bytetape::cpu {

/// Where the host reads v's first element.
inline char* address(const ConstView& v) {
  return static_cast<char*>(const_cast<void*>(v.is_constant() ? &v.constant_bits() : v.data()));
}

/// The walk over K operands of one shape: dims that all operands step through alike are merged, and ordered so that the
/// first operand's smallest stride is innermost. Strides are in bytes.
template <std::size_t K>
struct Walk {
  Shape shape;
  std::array<char*, K> data;
  std::array<Strides, K> strides;
};

template <std::size_t K>
Walk<K> make_walk(const std::array<const ConstView*, K>& operands) {
  Walk<K> w;
  const Shape& shape = operands[0]->shape;
  std::array<int, max_rank> order;
  int rank = 0;
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) order[static_cast<std::size_t>(rank++)] = d;
  const Strides& lead = operands[0]->strides;
  for (int i = 1; i < rank; ++i)  // insertion sort: stable, and the list is nearly sorted
    for (int j = i; j > 0 && lead[order[static_cast<std::size_t>(j - 1)]] < lead[order[static_cast<std::size_t>(j)]];
         --j)
      std::swap(order[static_cast<std::size_t>(j - 1)], order[static_cast<std::size_t>(j)]);

  for (std::size_t k = 0; k < K; ++k) w.data[k] = address(*operands[k]);
  for (int i = 0; i < rank; ++i) {
    const int d = order[static_cast<std::size_t>(i)];
    std::array<std::int64_t, K> step;
    for (std::size_t k = 0; k < K; ++k)
      step[k] = operands[k]->strides[d] * static_cast<std::int64_t>(size_of(operands[k]->dtype));
    const int last = w.shape.size() - 1;
    bool merges = last >= 0;
    for (std::size_t k = 0; merges && k < K; ++k) merges = w.strides[k][last] == step[k] * shape[d];
    if (merges) {
      w.shape[last] *= shape[d];
      for (std::size_t k = 0; k < K; ++k) w.strides[k][last] = step[k];
    } else {
      w.shape.push_back(shape[d]);
      for (std::size_t k = 0; k < K; ++k) w.strides[k].push_back(step[k]);
    }
  }
  if (w.shape.empty()) {
    w.shape.push_back(1);
    for (std::size_t k = 0; k < K; ++k) w.strides[k].push_back(0);
  }
  return w;
}

/// row(n, pointers, byte steps) for every innermost run of the elements [begin, end), counted in the walk's order.
template <std::size_t K, class F>
void walk_rows(const Walk<K>& w, std::int64_t begin, std::int64_t end, F&& row) {
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

/// walk_rows over everything, in parallel. `grain_size` elements a thread at the least.
template <std::size_t K, class F>
void for_each_row(const Walk<K>& w, F&& row, std::int64_t grain_size = grain) {
  parallel_for(numel(w.shape), grain_size,
               [&](std::int64_t begin, std::int64_t end) { walk_rows(w, begin, end, row); });
}

}  // namespace bytetape::cpu
