#include <algorithm>

#include "bytetape/cuda/attention/attention_workspace.h"
#include "bytetape/cuda/attention/flash_attention.h"
#include "bytetape/cuda/attention/fused_attention.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

/// Chunks may differ in what they copy: the address of each decides.
template <class Args>
static std::size_t most_bytes(const std::vector<Args>& chunks) {
  std::size_t most = 0;
  for (const Args& chunk : chunks) most = std::max(most, FusedAttention(chunk, nullptr).bytes);
  return most;
}

template <class Products, class Args>
static Plan plan_of(const Args& a) {
  if (a.factor.numel() == 0) return {};
  if (is_fused(a)) return {most_bytes(fused_chunks(a)), fused_attention};
  if (is_flash(a)) return {flash_bytes(a), flash_attention};
  return {Products(a, nullptr).bytes};
}
static Plan plan(const AttentionArgs& a) { return plan_of<AttentionForward>(a); }
static Plan plan(const AttentionBackwardArgs& a) { return plan_of<AttentionBackward>(a); }

const AttentionKernels& attention_plans() {
  static const AttentionKernels all{
      .attention = {plan, nullptr},
      .attention_backward = {plan, nullptr},
      .drops_by_own_mask = drops_as_cudnn,
  };
  return all;
}

}  // namespace bytetape::cuda
