#include <algorithm>
#include <limits>

#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/reduce.h"
#include "bytetape/cuda/conv/conv_direct.h"
#include "bytetape/cuda/conv/conv_mma.h"
#include "bytetape/cuda/conv/conv_sizes.h"
#include "bytetape/cuda/conv/conv_warpgroup.h"
#include "bytetape/cuda/conv/im2col.h"
#include "bytetape/cuda/matmul/matmul_layout.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

bool is_small(const ConvSizes& s) {
  constexpr std::int64_t elements = std::numeric_limits<std::int32_t>::max(), step = 1 << 12;
  const auto is_step = [&](Size2 v) { return v.h < step && v.w < step; };
  return s.x_numel() <= elements && s.y_numel() <= elements && s.weights() <= elements && is_step({s.kh, s.kw}) &&
         is_step(s.p.stride) && is_step(s.p.padding) && is_step(s.p.dilation);
}

Im2col::Im2col(const ConvSizes& s, ConvMap map, WorkspaceCap cap)
    : dtype(accumulated(s.dtype)),
      pixels(s.n * (map == ConvMap::input_grad ? s.h * s.w : s.oh * s.ow)),
      groups(s.groups),
      taps(s.taps()),
      seen(map == ConvMap::input_grad ? s.group_out() : s.group_in()),
      made(map == ConvMap::input_grad ? s.group_in() : s.group_out()),
      map(map) {
  const std::int64_t most = std::int64_t{s.dtype == DType::f64 ? 16 : 2} << 20;  // f64 always comes here
  const auto bytes = [&](std::int64_t n) { return aligned(static_cast<std::size_t>(n) * size_of(dtype)); };
  const std::int64_t row = groups * (patch() + made) * static_cast<std::int64_t>(size_of(dtype));
  rows = std::clamp<std::int64_t>(most / row, 1, std::max<std::int64_t>(pixels, 1));
  patches = 0;
  values = patches + bytes(rows * groups * patch());
  weights = values + bytes(rows * groups * made);
  products = weights + (map == ConvMap::weight_grad ? 2 : 1) * bytes(groups * made * patch());
  const MatmulArgs largest = product(nullptr, rows, 0, Device::cuda());
  total = products + library_workspace(largest, cap) + copy_bytes(largest.a) + copy_bytes(largest.b);
}

View Im2col::weight_matrix(void* workspace, int part, Device device) const {
  const std::int64_t k = patch();
  const std::size_t bytes = aligned(static_cast<std::size_t>(groups * made * k) * size_of(dtype));
  char* data = workspace ? static_cast<char*>(workspace) + weights + static_cast<std::size_t>(part) * bytes : nullptr;
  switch (map) {
    case ConvMap::forward:  // weight (o, kh, kw, c / groups)
      return View(data, dtype, device, {groups, k, made}, {made * k, 1, k});
    case ConvMap::input_grad:  // weight (groups, kh, kw, o / groups, c / groups)
      return View(data, dtype, device, {groups, k, made}, {made * k, made, 1});
    default:
      return View(data, dtype, device, {groups, made, k}, {made * k, k, 1});
  }
}

MatmulArgs Im2col::product(void* workspace, std::int64_t count, int part, Device device) const {
  const auto at = [&](std::size_t offset) { return workspace ? static_cast<char*>(workspace) + offset : nullptr; };
  const std::int64_t k = patch();
  const View seen_rows(at(patches), dtype, device, {groups, count, k}, {k, groups * k, 1});
  const View weight = weight_matrix(workspace, part, device);
  if (map != ConvMap::weight_grad)
    return {seen_rows, weight, {}, View(at(values), dtype, device, {groups, count, made}, {made, groups * made, 1})};
  return {ConstView(at(values), dtype, device, {groups, made, count}, {made, 1, groups * made}), seen_rows, {}, weight};
}

bool may_use_cudnn(const ConvSizes& s, const ConstView& x, const ConstView& y) {
  return s.dtype != DType::f64 && is_small(s) && (are_channels_last(x, y) || (x.is_contiguous() && y.is_contiguous()));
}

ConvWorkspace::ConvWorkspace(const ConvSizes& s, ConvMap map, const ConstView& x_view, const ConstView& weight_view,
                             const ConstView& y_view, const ConstView& bias_view, std::size_t sum_bytes,
                             WorkspaceCap cap) {
  if (s.n == 0) return;
  std::size_t end = 0;
  const bool may_copy = may_use_cudnn(s, x_view, y_view);
  const auto copy_if = [&](bool is_needed, const ConstView& v) {
    const Copy copy{may_copy && is_needed, end};
    if (copy.exists) end += aligned(static_cast<std::size_t>(v.numel()) * size_of(s.dtype));
    return copy;
  };
  const auto is_wanted = [&](const ConstView& v, const Strides& strides) {
    return v.dtype == s.dtype && same_layout(v.shape, v.strides, strides) && is_aligned_for_cudnn(v);
  };
  x = copy_if(!is_aligned_for_cudnn(x_view), x_view);
  weight = copy_if(!is_wanted(weight_view, weight_strides(x_view, weight_view, y_view)), weight_view);
  y = copy_if(!is_aligned_for_cudnn(y_view), y_view);
  bias = copy_if(!is_aligned_for_cudnn(bias_view), bias_view);
  sums = end;
  scratch = sums + aligned(sum_bytes);
  const auto for_either = [&](WorkspaceCap c) { return std::max(cudnn_workspace(s, c), Im2col(s, map, c).total); };
  const std::size_t bytes = for_either(cap);
  total = scratch + bytes;
  library = std::min(bytes, cap.value_or(bytes));
  usual_library = cap ? for_either(std::nullopt) : bytes;
}
ConvWorkspace::ConvWorkspace(const Conv2dArgs& a)
    : ConvWorkspace(ConvSizes(a), ConvMap::forward, a.x, a.weight, a.y, a.bias, 0, workspace_cap(a.y.device)) {}
ConvWorkspace::ConvWorkspace(const Conv2dInputGradArgs& a)
    : ConvWorkspace(ConvSizes(a), ConvMap::input_grad, a.gx, a.weight, a.gy, {}, 0, workspace_cap(a.gy.device)) {}
ConvWorkspace::ConvWorkspace(const Conv2dWeightGradArgs& a)
    : ConvWorkspace(ConvSizes(a), ConvMap::weight_grad, a.x, a.gw, gy_of(a), {},
                    a.gb.defined() ? reduce_plans().sum.plan(bias_grad_of(a)).workspace : 0,
                    workspace_cap(a.gy.device)) {}

static Plan plan(const Conv2dArgs& a) {
  const ConvSizes s(a);
  if (is_mma(s, ConvMap::forward, a.y)) return {0, conv_mma};
  if (is_direct(s, ConvMap::forward, a.y)) return {0, conv_direct};
  return {ConvWorkspace(a).total};
}
static Plan plan(const Conv2dInputGradArgs& a) { return {ConvWorkspace(a).total}; }
static Plan plan(const Conv2dWeightGradArgs& a) {
  const ConvSizes s(a);
  if (is_mma(s, ConvMap::weight_grad, a.gy)) return {MmaConv(s, ConvMap::weight_grad).sum_bytes(), conv_mma};
  if (is_direct(s, ConvMap::weight_grad, a.gy)) return {DirectConv(s, ConvMap::weight_grad).sum_bytes(), conv_direct};
  const std::size_t bytes = ConvWorkspace(a).total;
  if (is_warpgroup(a)) return {std::max(WarpgroupConv(s).sum_bytes(), bytes), conv_warpgroup};
  return {bytes};
}

// Whether the weight's gradient has x's dtype and must be widened. That is so if cuDNN may compute it, because other
// kernels write f32 from their sums. The geometry alone decides, because predictions cannot ask cuDNN. If cuDNN has no
// algorithm after all, im2col's sums are rounded too.
static bool widens_weight_grad(const Conv2dWeightGradArgs& a) {
  const ConvSizes s(a);
  return size_of(s.dtype) == 2 && s.n > 0 && is_small(s) &&
         same_layout(a.gw.shape, a.gw.strides, weight_strides(a.x, a.gw, a.gy)) &&
         !is_mma(s, ConvMap::weight_grad, a.gy) && !is_direct(s, ConvMap::weight_grad, a.gy);
}

const ConvKernels& conv_plans() {
  static const ConvKernels all{
      .conv2d = {plan, nullptr},
      .conv2d_input_grad = {plan, nullptr},
      .conv2d_weight_grad = {plan, nullptr},
      .widens_weight_grad = widens_weight_grad,
  };
  return all;
}

}  // namespace bytetape::cuda
