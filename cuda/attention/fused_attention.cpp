#include "bytetape/cuda/attention/fused_attention.h"

#include <algorithm>
#include <cmath>

#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/scratch_parts.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/attention/attention_blocks.h"

namespace bytetape::cuda {
namespace {

using Parts = ScratchParts<256>;

constexpr std::int64_t vector = 8;  // elements in 16 bytes

bool is_head_size(std::int64_t d) { return d > 0 && d <= 128 && d % vector == 0; }

/// Returns strides of x in which dims of size 1, whose strides mean nothing, have those of a dense tensor.
Strides strides_of(const ConstView& x) {
  Strides strides = x.strides;
  const Strides dense = contiguous_strides(x.shape);
  for (int d = 0; d < x.shape.size(); ++d)
    if (x.shape[d] == 1) strides[d] = dense[d];
  return strides;
}

/// Whether cuDNN can access x where it is.
bool fits(const ConstView& x, const Strides& strides) {
  for (int d = 0; d < 3; ++d)
    if (strides[d] <= 0 || strides[d] % vector != 0) return false;
  return strides[3] == 1 && is_aligned(x, 16);
}

/// Returns strides in which the heads of a token are adjacent, as projections write them.
Strides token_strides(const Shape& s) { return {s[1] * s[2] * s[3], s[3], s[1] * s[3], 1}; }

View in_workspace(const ConstView& x, Parts& parts) {
  void* const data = parts.take_bytes(static_cast<std::size_t>(x.numel()) * size_of(x.dtype));
  return {data, x.dtype, x.device, x.shape, token_strides(x.shape)};
}

FusedOperand operand(const ConstView& x, Parts& parts) {
  const View given(const_cast<void*>(x.data()), x.dtype, x.device, x.shape, strides_of(x));
  if (fits(given, given.strides)) return {given, given};
  return {given, in_workspace(x, parts), true};
}

/// The gradient g of x. cuDNN writes gradients that nobody needs, too.
FusedOperand gradient(const View& g, const ConstView& x, Parts& parts) {
  return g.defined() ? operand(g, parts) : FusedOperand{{}, in_workspace(x, parts)};
}

/// cuDNN takes 256 bytes forward. Its deterministic backward also takes the gradients of the scores, in tiles of 64
/// queries and 128 keys, a row sum for each query, and the gradients of grouped keys for each head (the nodes of SDPA
/// in cudnn-frontend; measured with cuDNN 9.14).
std::size_t library_workspace(const AttentionSizes& s, bool is_backward) {
  if (!is_backward) return 256;
  const std::int64_t heads = s.batch * s.heads;
  const std::int64_t scores = heads * round_up(s.n, 64) * round_up(s.m, 128) * 2;
  const std::int64_t grouped = s.heads > s.groups ? heads * s.m * (s.d + s.e) * 2 : 0;
  return static_cast<std::size_t>(scores + heads * s.n * 4 + grouped + 256);
}

/// Memory for lengths, which backward needs unless the keys fill whole tiles. If it gets none, cudnn-frontend copies
/// them from the host's stack, which a captured step would read again.
View make_lengths(const AttentionSizes& s, Device device, Parts& parts) {
  if (s.m % 128 == 0) return {};
  return {parts.take<std::int32_t>(2 * s.batch), DType::i32, device, {2, s.batch}, {s.batch, 1}};
}

/// Memory for the seed of a dropout mask.
View make_seed(const AttentionInputs& in, Parts& parts) {
  if (in.p == 0) return {};
  return {parts.take<std::int64_t>(2), DType::i64, in.q.device, {2}, {1}};
}

/// The sizes of one group of heads.
AttentionSizes one_group(const AttentionInputs& in) {
  AttentionSizes s(in);
  s.batch = 1, s.heads = s.heads_per_group(), s.groups = 1;
  return s;
}

bool has_fused_backward(const AttentionInputs& in) {
  // With one query, the gradient of v by cuDNN 9.14 is not the same in each run.
  return in.q.shape[2] > 1 && library_workspace(one_group(in), true) <= most_fused_bytes;
}

/// cudnn-frontend computes 1 - p in f64 in forward and in f32 in backward. Both are equal if p is a multiple of 2^-24.
double rounded(double p) { return std::round(p * 0x1p24) * 0x1p-24; }
/// Whether rounding changes p and 1 / (1 - p) little enough.
bool is_fused_dropout(double p) { return p >= 0x1p-20 && p <= 1 - 0x1p-10; }

// With one query and one key, cuDNN has no backward. Without cuDNN, all attention is made of matrix products.
bool is_fused(const AttentionInputs& in) {
#ifdef BYTETAPE_WITHOUT_CUDNN
  return false;
#endif
  const AttentionSizes s(in);
  const bool is_taken = in.may_fuse && size_of(in.q.dtype) == 2 && is_head_size(s.d) && is_head_size(s.e) &&
                        s.batch > 0 && s.heads > 0 && s.n > 0 && s.m > 1 && !in.mask.defined();
  return is_taken && (in.p == 0 || (is_fused_dropout(in.p) && has_fused_backward(in)));
}

/// How many batches and groups a chunk has.
struct ChunkSizes {
  std::int64_t batches, groups;

  ChunkSizes(const AttentionInputs& in, bool is_backward) {
    const auto one = static_cast<std::int64_t>(library_workspace(one_group(in), is_backward || in.p > 0));
    const std::int64_t fit = std::max<std::int64_t>(1, static_cast<std::int64_t>(most_fused_bytes) / one);
    groups = std::min(in.k.shape[1], fit);
    batches = std::clamp<std::int64_t>(fit / groups, 1, in.q.shape[0]);
  }
};

/// Returns batches and heads (or groups) of x.
template <class V>
V part(const V& x, std::int64_t batch, std::int64_t batches, std::int64_t head, std::int64_t heads) {
  if (!x.defined()) return x;
  V y = AttentionBlocks::moved(x, batch * x.strides[0] + head * x.strides[1]);
  y.shape[0] = batches, y.shape[1] = heads;
  return y;
}

/// Returns chunks, made by chunk_of(of_heads, of_groups), where the arguments take their part of a tensor.
template <class Args, class ChunkOf>
std::vector<Args> chunks(const Args& a, bool is_backward, const ChunkOf& chunk_of) {
  const AttentionSizes s(a.in);
  const ChunkSizes most(a.in, is_backward);
  std::vector<Args> all;
  for (std::int64_t b = 0; b < s.batch; b += most.batches)
    for (std::int64_t g = 0; g < s.groups; g += most.groups) {
      const std::int64_t batches = std::min(most.batches, s.batch - b), groups = std::min(most.groups, s.groups - g),
                         per_group = s.heads_per_group();
      const std::size_t index = all.size();
      all.push_back(chunk_of([=](const auto& x) { return part(x, b, batches, g * per_group, groups * per_group); },
                             [=](const auto& x) { return part(x, b, batches, g, groups); }));
      all.back().in.state.offset += index;
    }
  return all;
}

}  // namespace

bool is_fused(const AttentionArgs& a) { return is_fused(a.in); }

bool is_fused(const AttentionBackwardArgs& a) { return is_fused(a.in) && has_fused_backward(a.in); }

bool drops_as_cudnn(const AttentionInputs& in) { return in.p > 0 && is_fused(in); }

FusedAttention::FusedAttention(const AttentionArgs& a, void* ws)
    : size(a.in),
      scale(a.in.scale),
      is_backward(false),
      log_sum(a.shift),
      p(rounded(a.in.p)),
      state(a.in.state),
      library_bytes(library_workspace(size, false)) {
  Parts parts(ws);
  for (const ConstView* x : {&a.in.q, &a.in.k, &a.in.v}) read.push_back(operand(*x, parts));
  seed = make_seed(a.in, parts);
  written.push_back(operand(a.y, parts));
  library = parts.take_bytes(library_bytes);
  bytes = parts.bytes();
}

FusedAttention::FusedAttention(const AttentionBackwardArgs& a, void* ws)
    : size(a.in),
      scale(a.in.scale),
      is_backward(true),
      log_sum(a.shift),
      p(rounded(a.in.p)),
      state(a.in.state),
      library_bytes(library_workspace(size, true)) {
  Parts parts(ws);
  for (const ConstView* x : {&a.in.q, &a.in.k, &a.in.v, &a.y, &a.gy}) read.push_back(operand(*x, parts));
  lengths = make_lengths(size, a.gy.device, parts);
  seed = make_seed(a.in, parts);
  written = {gradient(a.gq, a.in.q, parts), gradient(a.gk, a.in.k, parts), gradient(a.gv, a.in.v, parts)};
  library = parts.take_bytes(library_bytes);
  bytes = parts.bytes();
}

std::vector<AttentionArgs> fused_chunks(const AttentionArgs& a) {
  return chunks(a, false, [&](const auto& heads, const auto& groups) -> AttentionArgs {
    AttentionInputs in = a.in;
    in.q = heads(in.q), in.k = groups(in.k), in.v = groups(in.v);
    return {in, heads(a.y), heads(a.shift), heads(a.factor)};
  });
}

std::vector<AttentionBackwardArgs> fused_chunks(const AttentionBackwardArgs& a) {
  return chunks(a, true, [&](const auto& heads, const auto& groups) -> AttentionBackwardArgs {
    AttentionInputs in = a.in;
    in.q = heads(in.q), in.k = groups(in.k), in.v = groups(in.v);
    return {in, heads(a.y), heads(a.shift), heads(a.factor), heads(a.gy), heads(a.gq), groups(a.gk), groups(a.gv)};
  });
}

}  // namespace bytetape::cuda
