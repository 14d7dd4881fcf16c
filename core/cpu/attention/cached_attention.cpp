// Attention of new tokens to a cache. A query's scores are computed in tiles, and softmax online, as in attention.cpp.
// Each query's order of sums depends on its position alone, so the number of threads does not change the bits.
#include "bytetape/core/kernels/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/core/cpu/matrix_block.h"
#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/fault.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

constexpr std::int64_t tile = 64;  // keys
static_assert(most_cached_columns <= detail::chunk, "a Source loads a token at once");

std::int64_t position_of(const CachedAttentionArgs& a, std::int64_t row) {
  return a.positions.as<std::int64_t>()[row * a.positions.strides[0]];
}

void check_positions(const CachedAttentionArgs& a) {
  for (std::int64_t row = 0; row < a.positions.shape[0]; ++row)
    if (const std::int64_t p = position_of(a, row); p < 0 || p >= a.bound())
      throw_fault({Fault::Kind::position, p, a.bound()});
}

/// Copies row `row` of x, new keys or values, into the cache.
void write_row(const CachedAttentionArgs& a, std::int64_t row, const ConstView& x, const View& cache) {
  for (std::int64_t head = 0; head < x.shape[1]; ++head)
    copy(matrix_block(x, {row, head}, 0, 0, x.shape[2], x.shape[3]),
         matrix_block(cache, {row, head}, position_of(a, row), 0, x.shape[2], x.shape[3]));
}

/// The tokens of one head of one row.
template <class T>
struct Tokens {
  const char* data;
  std::int64_t token_step, column_step, d;  // steps in bytes

  Tokens(const ConstView& x, std::int64_t row, std::int64_t head)
      : data(reinterpret_cast<const char*>(x.as<T>() + row * x.strides[0] + head * x.strides[1])),
        token_step(x.strides[2] * static_cast<std::int64_t>(sizeof(T))),
        column_step(x.strides[3] * static_cast<std::int64_t>(sizeof(T))),
        d(x.shape[3]) {}
  /// Returns an Eigen array of the token's columns, valid until the source loads again.
  auto load(std::int64_t token, detail::Source<T>& source) const {
    return source.load(data + token * token_step, column_step, d);
  }
};

/// Computes the attention of new token i of a head.
template <class T>
void attend(const CachedAttentionArgs& a, std::int64_t row, std::int64_t head, std::int64_t i) {
  using C = compute_t<T>;
  const std::int64_t kv_head = head / (a.q.shape[1] / a.k.shape[1]), d = a.q.shape[3];
  const Tokens<T> q(a.q, row, head), keys(a.keys, row, kv_head), values(a.values, row, kv_head);
  detail::Source<T> of_q, of_token;
  alignas(64) C scores[tile], out[most_cached_columns];
  const auto query = q.load(i, of_q);
  Eigen::Map<Array<C>, Eigen::Aligned64> y(out, d);
  y.setZero();
  C largest = -std::numeric_limits<C>::infinity(), sum = 0;
  const std::int64_t end = position_of(a, row) + i + 1;
  for (std::int64_t j = 0; j < end; j += tile) {
    const std::int64_t count = std::min(tile, end - j);
    Eigen::Map<Array<C>, Eigen::Aligned64> weights(scores, tile);
    weights.setConstant(-std::numeric_limits<C>::infinity());
    for (std::int64_t c = 0; c < count; ++c)
      scores[c] = static_cast<C>(a.scale) * sum_of(query * keys.load(j + c, of_token));
    const C before = largest;
    largest = std::max<C>(before, weights.maxCoeff());
    const C shift = std::isinf(largest) && largest < 0 ? C{0} : largest;  // no finite score yet: exp(-inf - 0) is 0
    const C factor = std::exp(before - shift);
    weights -= shift;
    exp_vectors(scores, tile);
    sum = sum * factor + weights.sum();
    y *= factor;
    for (std::int64_t c = 0; c < count; ++c) y += scores[c] * values.load(j + c, of_token);
  }
  y /= sum;
  T* const to = a.y.as<T>() + row * a.y.strides[0] + head * a.y.strides[1] + i * a.y.strides[2];
  store_piece<T>(reinterpret_cast<char*>(to), a.y.strides[3] * static_cast<std::int64_t>(sizeof(T)), y);
}

void cached_attention(const CachedAttentionArgs& a) {
  if (a.y.numel() == 0) return;
  check_positions(a);
  const std::int64_t rows = a.q.shape[0], heads = a.q.shape[1], t = a.q.shape[2];
  for (std::int64_t row = 0; row < rows; ++row) {
    write_row(a, row, a.k, a.keys);
    write_row(a, row, a.v, a.values);
  }
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < rows; ++row) longest = std::max(longest, position_of(a, row) + t);
  const std::int64_t work = 4 * longest * a.q.shape[3];  // of a query
  visit_floating(a.y.dtype, [&](auto zero) {
    parallel_for(rows * heads * t, std::max<std::int64_t>(grain / work, 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit)
        attend<decltype(zero)>(a, unit / (heads * t), unit / t % heads, unit % t);
    });
  });
}

}  // namespace

const CachedAttentionKernels& cached_attention_kernels() {
  static const CachedAttentionKernels all{
      .cached_attention = cached_attention,
  };
  return all;
}

}  // namespace bytetape::cpu
