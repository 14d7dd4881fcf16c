#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/conv_sizes.h"
#include "bytetape/core/kernels/reduce.h"
#include "bytetape/cuda/precision.h"
#include "bytetape/cuda/runtime/workspace.h"

/// What planning and launching a convolution agree on: host code without the toolkit.
namespace bytetape::cuda {

/// A convolution is one trilinear form of x, weight and y; each map makes one of them from the other two.
enum class ConvMap : std::int64_t { forward, input_grad, weight_grad };

/// Whether cuDNN computes channels-last; else row-major.
inline bool are_channels_last(const ConstView& x, const ConstView& y) {
  return is_channels_last(x.shape, x.strides) && is_channels_last(y.shape, y.strides);
}
/// The strides that it then wants the weight in, or its gradient.
inline Strides weight_strides(const ConstView& x, const ConstView& weight, const ConstView& y) {
  return are_channels_last(x, y) ? channels_last_strides(weight.shape) : contiguous_strides(weight.shape);
}

/// The alignment of all that cuDNN is given, in bytes. Some of its engines read vectors whatever alignment a graph
/// announces.
inline constexpr std::int64_t cudnn_alignment = 16;
inline bool is_aligned_for_cudnn(const ConstView& x) {
  return reinterpret_cast<std::uintptr_t>(x.data()) % cudnn_alignment == 0;
}

/// Whether cuDNN may have an engine; if it has none, im2col.h computes.
bool may_use_cudnn(const ConvSizes& s, const ConstView& x, const ConstView& y);

/// What libraries count in 32 bits stays far below that.
bool is_small(const ConvSizes& s);

/// The bias's gradient as a sum of gy.
inline SumArgs bias_grad_of(const Conv2dWeightGradArgs& a) {
  return {a.gy, View(a.gb.data(), a.gb.dtype, a.gb.device, {1, a.gb.shape[0], 1, 1}, {0, a.gb.strides[0], 0, 0})};
}

/// gy as the gradient of the weight is made from it.
inline const ConstView& gy_of(const Conv2dWeightGradArgs& a) { return a.masked.defined() ? a.masked : a.gy; }

/// Where things lie in a launch's workspace, in bytes from its start.
struct ConvWorkspace {
  /// A copy of an operand that cuDNN cannot take from where it is.
  struct Copy {
    bool exists = false;
    std::size_t at = 0;
  };
  Copy x, weight, y, bias;  ///< or copies of their gradients
  std::size_t sums = 0;     ///< of the bias's gradient, while it is summed
  std::size_t scratch = 0;  ///< cuDNN's, or im2col's
  std::size_t total = 0;
  std::size_t library = 0, usual_library = 0;  ///< what cuDNN may use of the scratch, and what without a cap

  explicit ConvWorkspace(const Conv2dArgs& a);
  explicit ConvWorkspace(const Conv2dInputGradArgs& a);
  explicit ConvWorkspace(const Conv2dWeightGradArgs& a);

 private:
  ConvWorkspace(const ConvSizes& s, ConvMap map, const ConstView& x, const ConstView& weight, const ConstView& y,
                const ConstView& bias, std::size_t sum_bytes, WorkspaceCap cap);
};

/// What cuDNN may ask for: as much as the cap, or from what the engines that its heuristics put first do ask for on an
/// H100 (cuDNN 9.14).
inline std::size_t cudnn_workspace(const ConvSizes& s, WorkspaceCap cap) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  if (s.dtype == DType::f64) return 0;
  const auto tensors = static_cast<std::size_t>(s.x_numel() + s.y_numel() + s.weights()) * size_of(s.dtype);
  // True f32 runs on engines for row-major images, which turn all tensors around.
  if (s.dtype == DType::f32 && !allow_tf32()) return std::min(tensors + mib, cap.value_or(256 * mib));
  // Tensor cores take channels by 16 bytes: others are padded in copies, while these at most split sums.
  const std::int64_t unit = 16 / static_cast<std::int64_t>(size_of(s.dtype));
  const bool is_whole = s.groups == 1 && s.c % unit == 0 && s.o % unit == 0;
  return is_whole ? std::min(4 * tensors + mib / 16, cap.value_or(4 * mib))
                  : std::min(2 * tensors + 2 * mib, cap.value_or(64 * mib));
}

}  // namespace bytetape::cuda
