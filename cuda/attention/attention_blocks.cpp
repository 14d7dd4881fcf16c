#include "bytetape/cuda/attention/attention_blocks.h"

#include "bytetape/core/integers.h"
#include "bytetape/core/walk.h"

namespace bytetape::cuda {
namespace {

/// Returns the most queries of a block. With a causal mask, blocks of fewer queries skip more of the keys.
std::int64_t most_queries(const AttentionSizes& s) {
  constexpr std::int64_t least = 256, blocks = 8;
  return s.is_causal ? std::min(s.n, std::max(least, round_up((s.n + blocks - 1) / blocks, 64))) : s.n;
}

/// Returns `count` matrices of x from the offset `at` on, `step` apart.
template <class V>
V stack(const V& x, std::int64_t at, std::int64_t count, std::int64_t step) {
  V v = AttentionBlocks::moved(x, at);
  v.shape = {count, x.shape[3], x.shape[4]};
  v.strides = {step, x.strides[3], x.strides[4]};
  return v;
}

}  // namespace

// Rows of scores are aligned for vectors of 16 bytes and more.
AttentionBlocks::AttentionBlocks(const AttentionInputs& in, std::size_t bytes)
    : size(in), pitch(std::max<std::int64_t>(round_up(size.m, 8), 8)) {
  std::int64_t left = most_block_bytes / (pitch * static_cast<std::int64_t>(bytes));  // rows of scores
  const auto take = [&](std::int64_t most) {
    std::int64_t taken = std::clamp<std::int64_t>(left, 1, std::max<std::int64_t>(most, 1));
    if (taken < most && taken > 64) taken = taken / 64 * 64;  // whole tiles of the products
    left /= taken;
    return taken;
  };
  rows = take(most_queries(size));
  heads = take(size.heads_per_group());
  groups = take(size.groups);
  batches = take(size.batch);
}

void for_products(const ConstView& a, const ConstView& b, const View& y, bool adds, const ForProduct& f) {
  Walk<3> walk({y.shape[0], y.shape[1], y.shape[2]}, {&y.strides, &a.strides, &b.strides});
  walk.complete();
  // A call makes the products along the longest dim.
  const auto longest = static_cast<int>(std::max_element(walk.shape.begin(), walk.shape.end()) - walk.shape.begin());
  const std::int64_t count = walk.shape[longest], calls = numel(walk.shape) / count;
  const auto stack_of = [&](const auto& x, std::size_t k, std::int64_t call) {
    std::int64_t at = 0;
    for (int d = walk.shape.size() - 1; d >= 0; --d)
      if (d != longest) at += call % walk.shape[d] * walk.strides[k][d], call /= walk.shape[d];
    return stack(x, at, count, walk.strides[k][longest]);
  };
  for (std::int64_t call = 0; call < calls; ++call) {
    f({.a = stack_of(a, 1, call),
       .b = stack_of(b, 2, call),
       .bias = {},
       .y = stack_of(y, 0, call),
       .accumulates = adds});
  }
}

}  // namespace bytetape::cuda
