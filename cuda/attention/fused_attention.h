#pragma once
#include <cstddef>
#include <vector>

#include "bytetape/core/kernels/attention.h"

/// When cuDNN's fused kernels compute an attention, in which chunks, and the workspace that they take. This is host
/// code that needs no toolkit. Nothing here depends on data, on the GPU or on cuDNN's version.
namespace bytetape::cuda {

/// The `algorithm` of a plan.
inline constexpr std::int64_t fused_attention = 1;

/// Whether cuDNN computes an attention: 16-bit tensors, head sizes that are multiples of 8 up to 128, at least one
/// query and two keys, no mask. In backward there must be two queries, and the scores of one group of heads must fit
/// into most_fused_bytes. With dropout, both passes are fused or none, because cuDNN's dropout mask is its own, and p
/// must be in [2^-20, 1 - 2^-10].
bool is_fused(const AttentionArgs& a);
bool is_fused(const AttentionBackwardArgs& a);
/// Whether the dropout mask is cuDNN's.
bool drops_as_cudnn(const AttentionInputs& in);

/// The most bytes that cuDNN takes for a chunk. Its deterministic backward holds all scores of a chunk.
inline constexpr std::size_t most_fused_bytes = std::size_t{512} << 20;

/// A tensor (b, h, n, d) of a fused attention. cuDNN accesses vectors of 16 bytes along d. A tensor whose strides or
/// address do not allow that has a dense copy in the workspace.
struct FusedOperand {
  View given;  // undefined for a gradient that nobody needs
  View used;
  bool is_copied = false;
};

/// The operands and the workspace of a chunk.
struct FusedAttention {
  /// A plan has no memory: ws is null.
  FusedAttention(const AttentionArgs& a, void* ws);
  FusedAttention(const AttentionBackwardArgs& a, void* ws);

  AttentionSizes size;
  double scale;
  bool is_backward;
  ConstView log_sum;                        // (b, h, n), f32: the shift
  std::vector<FusedOperand> read, written;  // q, k, v, and in backward y, gy; y, or gq, gk, gv
  View lengths;                             // i32 (2, b): queries and keys of each batch; undefined if not needed
  double p;                                 // the probability of dropout, a multiple of 2^-24
  PhiloxState state;                        // gives the seed of cuDNN's dropout mask
  View seed;                                // i64 (2): that seed, and an offset of 0; undefined without dropout
  void* library;                            // cuDNN's own workspace
  std::size_t library_bytes, bytes;         // `bytes` includes the copies
};

/// Returns the chunks of an attention, each of some batches and groups of heads. With dropout, both passes have the
/// same chunks, because each has a mask of its own.
std::vector<AttentionArgs> fused_chunks(const AttentionArgs& a);
std::vector<AttentionBackwardArgs> fused_chunks(const AttentionBackwardArgs& a);

}  // namespace bytetape::cuda
