#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/conv_sizes.h"
#include "bytetape/core/kernels/reduce.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/precision.h"
#include "bytetape/cuda/runtime/workspace.h"

/// Functions shared by the plans and launches of convolutions. They are host code that needs no toolkit.
namespace bytetape::cuda {

/// The three maps of a convolution. Each computes one of x, weight and y (or its gradient) from the other two.
enum class ConvMap : std::int64_t { forward, input_grad, weight_grad };

/// Whether cuDNN computes channels-last; if not, row-major.
inline bool are_channels_last(const ConstView& x, const ConstView& y) {
  return is_channels_last(x.shape, x.strides) && is_channels_last(y.shape, y.strides);
}
/// The strides in which cuDNN expects the weight or its gradient.
inline Strides weight_strides(const ConstView& x, const ConstView& weight, const ConstView& y) {
  return are_channels_last(x, y) ? channels_last_strides(weight.shape) : contiguous_strides(weight.shape);
}

/// The alignment of all tensors given to cuDNN, in bytes. Some engines read vectors whatever alignment a graph
/// declares.
inline constexpr std::int64_t cudnn_alignment = 16;
inline bool is_aligned_for_cudnn(const ConstView& x) { return is_aligned(x, cudnn_alignment); }

/// Whether cuDNN may have an engine. If it has none, im2col.h computes.
bool may_use_cudnn(const ConvSizes& s, const ConstView& x, const ConstView& y);

/// Whether everything that libraries count in 32 bits stays far below the limit.
bool is_small(const ConvSizes& s);

/// Returns the bias's gradient as a sum of gy.
inline SumArgs bias_grad_of(const Conv2dWeightGradArgs& a) {
  return {a.gy, View(a.gb.data(), a.gb.dtype, a.gb.device, {1, a.gb.shape[0], 1, 1}, {0, a.gb.strides[0], 0, 0})};
}

/// Returns the gradient that the weight's gradient is computed from: `masked` if it is defined, else gy.
inline const ConstView& gy_of(const Conv2dWeightGradArgs& a) { return a.masked.defined() ? a.masked : a.gy; }

/// The layout of a launch's workspace: offsets in bytes.
struct ConvWorkspace {
  /// A copy of an operand that cuDNN cannot use in place.
  struct Copy {
    bool exists = false;
    std::size_t at = 0;
  };
  Copy x, weight, y, bias;  ///< copies of the tensors or their gradients
  std::size_t sums = 0;     ///< workspace of the bias's gradient
  std::size_t scratch = 0;  ///< scratch of cuDNN or im2col
  std::size_t total = 0;
  std::size_t library = 0, usual_library = 0;  ///< bytes of scratch that cuDNN may use; the same without a cap

  explicit ConvWorkspace(const Conv2dArgs& a);
  explicit ConvWorkspace(const Conv2dInputGradArgs& a);
  explicit ConvWorkspace(const Conv2dWeightGradArgs& a);

 private:
  ConvWorkspace(const ConvSizes& s, ConvMap map, const ConstView& x, const ConstView& weight, const ConstView& y,
                const ConstView& bias, std::size_t sum_bytes, WorkspaceCap cap);
};

/// Returns the most workspace for cuDNN, in bytes: an estimate of what the first engines of cuDNN's heuristics ask for
/// (cuDNN 9.14, H100), but at most the cap. Without a cap, fixed bounds limit the estimate.
inline std::size_t cudnn_workspace(const ConvSizes& s, WorkspaceCap cap) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  if (s.dtype == DType::f64) return 0;
  const auto tensors = static_cast<std::size_t>(s.x_numel() + s.y_numel() + s.weights()) * size_of(s.dtype);
  // f32 without TF32 uses engines for row-major images, which transpose all tensors.
  if (s.dtype == DType::f32 && !allow_tf32()) return std::min(tensors + mib, cap.value_or(256 * mib));
  // Tensor cores take channels in units of 16 bytes. Other numbers are padded in copies. Whole units need scratch at
  // most for split sums.
  const std::int64_t unit = 16 / static_cast<std::int64_t>(size_of(s.dtype));
  const bool is_whole = s.groups == 1 && s.c % unit == 0 && s.o % unit == 0;
  return is_whole ? std::min(4 * tensors + mib / 16, cap.value_or(4 * mib))
                  : std::min(2 * tensors + 2 * mib, cap.value_or(64 * mib));
}

}  // namespace bytetape::cuda
