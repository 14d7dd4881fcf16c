#pragma once
#include "bytetape/cuda/attention/attention_workspace.h"

/// The kernels between the products of attention.
namespace bytetape::cuda {

/// Replaces the scores of a block by probabilities after dropout, in f.probabilities. Writes the rows' shifts and
/// factors.
void softmax_rows(const AttentionForward& f, const AttentionBlock& b);
/// Computes dots = rowsum(gy y), for all rows of the attention.
void multiply_rows(const AttentionBackward& f);
/// Computes the weights and the narrow slopes of a block, those that are needed.
void slope_rows(const AttentionBackward& f, const AttentionBlock& b);

}  // namespace bytetape::cuda
