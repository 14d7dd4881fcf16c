// Attention as matrix products over blocks of scores (attention_blocks.h), with a kernel for the rows of scores between
// them (attention_rows.cu).
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/philox.h"
#include "bytetape/cuda/attention/attention_rows.h"
#include "bytetape/cuda/attention/cudnn_attention.h"
#include "bytetape/cuda/attention/flash_attention.h"
#include "bytetape/cuda/matmul/matmul.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

void fill_lengths(const FusedAttention& f) {
  if (!f.lengths.defined()) return;
  for (const std::int64_t i : {0, 1}) {
    const View row(f.lengths.as<std::int32_t>() + i * f.size.batch, DType::i32, f.lengths.device, {f.size.batch}, {1});
    copy_kernels().fill(i == 0 ? f.size.n : f.size.m, row);
  }
}

/// Writes the seed of cuDNN's dropout mask, of the words of a counter. In a captured step, the counter is known on the
/// device alone.
__global__ void seed_kernel(PhiloxState state, std::int64_t* seed) {
  const PhiloxState at = started(state);
  std::uint32_t words[4][1];
  philox(at.seed, at.offset, words);
  seed[0] = static_cast<std::int64_t>(bits64(words[0][0], words[1][0]));
  seed[1] = 0;
}
void make_seed(const FusedAttention& f) {
  if (!f.seed.defined()) return;
  seed_kernel<<<1, 1, 0, stream_of(f.seed.device)>>>(f.state, f.seed.as<std::int64_t>());
  check_launch();
}

/// Runs cuDNN's fused attention for each chunk, and the copies around it.
template <class Args>
void fused(const Args& args, Workspace ws) {
  for (const Args& chunk : fused_chunks(args)) {
    const FusedAttention f(chunk, ws.data);
    for (const FusedOperand& x : f.read)
      if (x.is_copied) copy_kernels().copy(x.given, x.used);
    fill_lengths(f);
    make_seed(f);
    run_fused(f);
    for (const FusedOperand& y : f.written)
      if (y.is_copied) copy_kernels().copy(y.used, y.given);
  }
}

void attention(const AttentionArgs& a, const Plan& plan, Workspace ws) {
  if (a.factor.numel() == 0) return;
  if (plan.algorithm == fused_attention) {
    copy_kernels().fill(1, a.factor);  // cuDNN's shift is the log of the row's sum
    return fused(a, ws);
  }
  if (plan.algorithm == flash_attention) return run_flash(a, ws.data);
  const AttentionForward f(a, ws.data);
  const auto run = [&](const MatmulArgs& args) { multiply(args, f.products); };
  f.blocks.for_chunks([&](const AttentionBlock& chunk) {
    f.blocks.for_blocks(chunk, [&](const AttentionBlock& b) {
      f.make_scores(b, run);
      softmax_rows(f, b);
      f.make_y(b, run);
      if (f.copies_y) copy_kernels().copy(f.y_of(b), f.blocks.queries(a.y, b));
    });
  });
}

void fill_zero(const View& x) {
  if (x.defined()) copy_kernels().fill(0, x);
}

/// Sets the gradients of keys to 0 that no query of a chunk may attend to. They are beyond those of its first block.
void fill_rest(const View& sum, std::int64_t keys) {
  View rest = AttentionBlocks::moved(sum, keys * sum.strides[3]);
  rest.shape[3] -= keys;
  if (rest.numel() > 0) fill_zero(rest);
}

void attention_backward(const AttentionBackwardArgs& a, const Plan& plan, Workspace ws) {
  if (a.factor.numel() == 0) {
    fill_zero(a.gk);
    return fill_zero(a.gv);
  }
  if (plan.algorithm == fused_attention) return fused(a, ws);
  if (plan.algorithm == flash_attention) return run_flash(a, ws.data);
  const AttentionBackward f(a, ws.data);
  const auto run = [&](const MatmulArgs& args) { multiply(args, f.products); };
  if (f.needs_slopes()) multiply_rows(f);
  f.blocks.for_chunks([&](const AttentionBlock& chunk) {
    for (const auto* s : {&f.gk, &f.gv})
      if (s->g.defined()) fill_rest(f.sum_of(*s, chunk), chunk.keys);
    f.blocks.for_blocks(chunk, [&](const AttentionBlock& b) {
      f.make_scores(b, run);
      f.make_slopes(b, run);
      slope_rows(f, b);
      f.make_gq(b, run);
      if (f.copies_gq) copy_kernels().copy(f.gq_of(b), f.blocks.queries(a.gq, b));
      f.add_gk(b, run);
      f.add_gv(b, run);
    });
    for (const auto* s : {&f.gk, &f.gv})
      if (s->is_copied) copy_kernels().copy(f.sum_of(*s, chunk), f.grad_of(*s, chunk));
  });
}

}  // namespace

const AttentionKernels& attention_kernels() {
  static const AttentionKernels all{
      .attention = {attention_plans().attention.plan, attention},
      .attention_backward = {attention_plans().attention_backward.plan, attention_backward},
      .drops_by_own_mask = drops_as_cudnn,
  };
  return all;
}

}  // namespace bytetape::cuda
