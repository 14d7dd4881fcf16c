#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/attention.h"

/// When our own fused kernels (flash_attention.cu) compute an attention. This is host code that needs no toolkit.
namespace bytetape::cuda {

/// The `algorithm` of a plan.
inline constexpr std::int64_t flash_attention = 2;

/// Whether flash kernels compute an attention: f32 tensors whose products may round to TF32, one head size of at most
/// 128 for keys and values, vectors of 16 bytes along heads, no mask, no dropout.
bool is_flash(const AttentionArgs& a);
bool is_flash(const AttentionBackwardArgs& a);

/// The workspace: in backward, two f32 for each query.
std::size_t flash_bytes(const AttentionArgs& a);
std::size_t flash_bytes(const AttentionBackwardArgs& a);

// In sources of their own, which compile side by side. ws has flash_bytes().
void run_flash(const AttentionArgs& a, void* ws);
void run_flash(const AttentionBackwardArgs& a, void* ws);

}  // namespace bytetape::cuda
