#pragma once
#include "bytetape/autograd/ops/images/conv_transpose.h"
#include "bytetape/autograd/ops/images/interpolate.h"
#include "bytetape/autograd/ops/loss.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/pool.h"
#include "tests/support/array.h"

// The larger ops as their definitions read, in naive loops.
namespace bytetape::test::reference {

Array matmul(const Array& a, const Array& b);
Array transpose(const Array& x);
/// bias may have no values.
Array conv2d(const Array& x, const Array& weight, const Array* bias, const Conv2dParams& p);
Array conv_transpose2d(const Array& x, const Array& weight, const Array* bias, const ConvTranspose2dParams& p);
Array max_pool2d(const Array& x, const Pool2dParams& p);
Array avg_pool2d(const Array& x, const Pool2dParams& p, bool count_include_pad);
Array adaptive_avg_pool2d(const Array& x, Size2 output_size);
/// In double, but for the f32 in which PyTorch finds the nearest.
Array interpolate(const Array& x, const InterpolateOptions& options);
/// mean and var of each channel; computed from x where they are null.
Array batch_norm(const Array& x, const Array* weight, const Array* bias, const double* mean, const double* var,
                 double eps);
/// Over the last `dims` dims.
Array layer_norm(const Array& x, int dims, const Array* weight, const Array* bias, double eps);
/// Over the last `dims` dims.
Array rms_norm(const Array& x, int dims, const Array* weight, double eps);
/// Over runs of adjacent channels.
Array group_norm(const Array& x, std::int64_t groups, const Array* weight, const Array* bias, double eps);
Array log_softmax(const Array& x, int dim);
/// By log-probabilities whose classes are dim 1, with a target of class indices. weight may be null.
Array nll_loss(const Array& log_p, const Array& target, const Array* weight, const CrossEntropyOptions& options);
Array cross_entropy(const Array& logits, const Array& target, const CrossEntropyOptions& options);
/// The same with a target of probabilities.
Array soft_cross_entropy(const Array& logits, const Array& target, const Array* weight,
                         const CrossEntropyOptions& options);
/// Joins along dim.
Array cat(const Arrays& x, int dim);
/// Of the default generator just seeded.
Array dropout(const Array& x, double p, std::uint64_t seed);

}  // namespace bytetape::test::reference
