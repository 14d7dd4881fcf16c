#include "bytetape/cuda/attention/attention_workspace.h"

#include "bytetape/core/kernels/scratch_parts.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {
namespace {

using Parts = ScratchParts<256>;

/// The bytes of a block for each score: one of the computed type, and a 16-bit one if the tensors are 16-bit.
std::size_t bytes_per_score(DType t) { return size_of(accumulated(t)) + (size_of(t) == 2 ? 2 : 0); }

/// The largest scratch of products.
class ProductScratch {
 public:
  ForProduct counter() {
    return [this](const MatmulArgs& args) { most_ = std::max(most_, matmul_plans().matmul.plan(args).workspace); };
  }
  Workspace take(Parts& parts) const { return {parts.take_bytes(most_), most_}; }

 private:
  std::size_t most_ = 0;
};

ConstView head_of(const ConstView& x, std::int64_t head) {
  ConstView one = AttentionBlocks::moved(x, head * x.strides[2]);
  one.shape[2] = 1;
  return one;
}

/// Returns the queries of a block of y, or the place of their copy.
View result_of(const AttentionBlocks& blocks, const View& y, bool is_copied, void* copy, const AttentionBlock& b) {
  if (!is_copied) return blocks.queries(y, b);
  return AttentionBlocks::dense(copy, y.dtype, y.device, {b.batches, b.groups, b.heads, b.rows, y.shape[3]},
                                y.shape[3]);
}

}  // namespace

AttentionForward::AttentionForward(const AttentionArgs& a, void* ws)
    : a(a), blocks(a.in, bytes_per_score(a.y.dtype)), copies_y(!is_row_major(a.y)) {
  Parts parts(ws);
  const DType t = a.y.dtype;
  scores = parts.take_bytes(blocks.bytes(blocks.pitch, size_of(accumulated(t))));
  probabilities = size_of(t) == 2 ? parts.take_bytes(blocks.bytes(blocks.pitch, 2)) : scores;
  y = copies_y ? parts.take_bytes(blocks.bytes(blocks.size.e, size_of(t))) : nullptr;
  ProductScratch scratch;
  make_scores(blocks.largest(), scratch.counter());
  make_y(blocks.largest(), scratch.counter());
  products = scratch.take(parts);
  bytes = parts.bytes();
}

void AttentionForward::make_scores(const AttentionBlock& b, const ForProduct& f) const {
  for_products(blocks.queries(a.in.q, b), transposed(blocks.keys(a.in.k, b)),
               blocks.scores(scores, accumulated(a.y.dtype), a.y.device, b), false, f);
}

void AttentionForward::make_y(const AttentionBlock& b, const ForProduct& f) const {
  for_products(blocks.scores(probabilities, a.y.dtype, a.y.device, b), blocks.keys(a.in.v, b), y_of(b), false, f);
}

View AttentionForward::y_of(const AttentionBlock& b) const { return result_of(blocks, a.y, copies_y, y, b); }

// Blocks do not depend on the gradients that are needed, and neither do the bits of the others.
AttentionBackward::AttentionBackward(const AttentionBackwardArgs& a, void* ws)
    : a(a), blocks(a.in, 2 * bytes_per_score(a.gy.dtype)), copies_gq(a.gq.defined() && !is_row_major(a.gq)) {
  Parts parts(ws);
  const DType t = a.gy.dtype;
  const AttentionSizes& s = blocks.size;
  const std::size_t wide = size_of(accumulated(t));
  const auto take_scores = [&](std::size_t element) { return parts.take_bytes(blocks.bytes(blocks.pitch, element)); };
  scores = take_scores(wide);
  slopes = needs_slopes() ? take_scores(wide) : nullptr;
  weights = !a.gv.defined() ? nullptr : size_of(t) > 2 ? scores : take_scores(2);
  narrow_slopes = !needs_slopes() ? nullptr : size_of(t) > 2 ? slopes : take_scores(2);
  dots = needs_slopes() ? parts.take_bytes(static_cast<std::size_t>(s.batch * s.heads * s.n) * wide) : nullptr;
  gq = copies_gq ? parts.take_bytes(blocks.bytes(s.d, size_of(t))) : nullptr;
  const bool is_one = blocks.rows >= s.n && s.heads_per_group() == 1;
  const auto sum = [&](const View& g) -> Sum {
    const bool is_copied = g.defined() && (!is_row_major(g) || (size_of(t) == 2 && !is_one));
    if (!is_copied) return {g, false, nullptr};
    return {g, true,
            parts.take_bytes(static_cast<std::size_t>(blocks.batches * blocks.groups * s.m * g.shape[3]) * wide)};
  };
  gk = sum(a.gk);
  gv = sum(a.gv);
  ProductScratch scratch;
  const AttentionBlock largest = blocks.largest();
  make_scores(largest, scratch.counter());
  make_slopes(largest, scratch.counter());
  make_gq(largest, scratch.counter());
  add_gk(largest, scratch.counter());
  add_gv(largest, scratch.counter());
  products = scratch.take(parts);
  bytes = parts.bytes();
}

void AttentionBackward::make_scores(const AttentionBlock& b, const ForProduct& f) const {
  for_products(blocks.queries(a.in.q, b), transposed(blocks.keys(a.in.k, b)),
               blocks.scores(scores, accumulated(a.gy.dtype), a.gy.device, b), false, f);
}

void AttentionBackward::make_slopes(const AttentionBlock& b, const ForProduct& f) const {
  if (!needs_slopes()) return;
  for_products(blocks.queries(a.gy, b), transposed(blocks.keys(a.in.v, b)),
               blocks.scores(slopes, accumulated(a.gy.dtype), a.gy.device, b), false, f);
}

void AttentionBackward::make_gq(const AttentionBlock& b, const ForProduct& f) const {
  if (!a.gq.defined()) return;
  for_products(blocks.scores(narrow_slopes, a.gy.dtype, a.gy.device, b), blocks.keys(a.in.k, b), gq_of(b), false, f);
}

View AttentionBackward::gq_of(const AttentionBlock& b) const { return result_of(blocks, a.gq, copies_gq, gq, b); }

void AttentionBackward::add_gk(const AttentionBlock& b, const ForProduct& f) const {
  add(gk, narrow_slopes, a.in.q, b, f);
}

void AttentionBackward::add_gv(const AttentionBlock& b, const ForProduct& f) const { add(gv, weights, a.gy, b, f); }

// The heads of a group are added in order.
void AttentionBackward::add(const Sum& s, void* from, const ConstView& x, const AttentionBlock& b,
                            const ForProduct& f) const {
  if (!s.g.defined()) return;
  const ConstView factors = transposed(blocks.scores(from, a.gy.dtype, a.gy.device, b)), rows = blocks.queries(x, b);
  View sum = sum_of(s, b);
  sum.shape[3] = b.keys;
  for (std::int64_t head = 0; head < b.heads; ++head)
    for_products(head_of(factors, head), head_of(rows, head), sum, !blocks.is_first(b) || head > 0, f);
}

View AttentionBackward::grad_of(const Sum& s, const AttentionBlock& chunk) const {
  View g = blocks.matrices(s.g, chunk, 0, s.g.shape[2]);
  g.shape[2] = 1;
  return g;
}

View AttentionBackward::sum_of(const Sum& s, const AttentionBlock& chunk) const {
  if (!s.is_copied) return grad_of(s, chunk);
  return AttentionBlocks::dense(s.sums, accumulated(s.g.dtype), s.g.device,
                                {chunk.batches, chunk.groups, 1, s.g.shape[2], s.g.shape[3]}, s.g.shape[3]);
}

}  // namespace bytetape::cuda
