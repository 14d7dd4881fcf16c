#include "bytetape/autograd/ops/images/interpolate.h"

#include <cmath>
#include <limits>

#include "bytetape/autograd/ops/images/image_map.h"
#include "bytetape/core/kernels/interpolate.h"

namespace bytetape {

using enum AttributeType;

namespace {

// The kernels of interpolate, which map images to images.
constexpr OpDefinition forward_op{.name = "interpolate", .family = Family::interpolate};
constexpr OpDefinition backward_op{.name = "interpolate_backward", .family = Family::interpolate};
using Interpolate = ImageMap<forward_op, &InterpolateKernels::interpolate, backward_op,
                             &InterpolateKernels::interpolate_backward, InterpolateParams>;

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // keeps sizes far from overflow

void check_options(const InterpolateOptions& o) {
  const bool has_size = o.size != 0, has_factor = o.scale_factor != 0;
  check<ValueError>(has_size != has_factor, "expected either size or scale_factor, got size ", o.size,
                    " and scale_factor ", o.scale_factor, " (0: not given)");
  for (int i = 0; i < 2; ++i) {
    check<ValueError>(!has_size || o.size[i] >= 1, "size must be positive, got ", o.size);
    check<ValueError>(!has_factor || o.scale_factor[i] > 0, "scale_factor must be positive, got ", o.scale_factor);
  }
  check<ValueError>(!o.align_corners || o.mode == InterpolationMode::bilinear,
                    "align_corners is for bilinear interpolation alone");
}

/// Returns the output size for the options.
std::int64_t output_size(const Tensor& x, int spatial, const InterpolateOptions& o) {
  const std::int64_t inputs = x.size(2 + spatial);
  check(inputs >= 1, "there is nothing to interpolate in ", describe(x));
  const double factor = o.scale_factor[spatial], outputs = factor == 0
                                                               ? static_cast<double>(o.size[spatial])
                                                               : std::floor(factor * static_cast<double>(inputs));
  check(outputs >= 1 && outputs <= static_cast<double>(most), "expected an output size from 1 to ", most, ", got ",
        outputs, " for input size ", inputs, " of ", describe(x));
  return static_cast<std::int64_t>(outputs);
}

/// Returns the step in the input between adjacent outputs. `factor` is 0 if none was given.
double step_of(std::int64_t inputs, std::int64_t outputs, double factor, const InterpolateOptions& o) {
  const auto from = static_cast<double>(inputs), to = static_cast<double>(outputs);
  if (o.align_corners) return outputs > 1 ? (from - 1) / (to - 1) : 0;
  // As in PyTorch, the factor is ignored if the size does not change, or if nearest doubles it. Rounding errors of the
  // factor then have no effect.
  const bool is_whole = outputs == inputs || (o.mode == InterpolationMode::nearest && outputs == 2 * inputs);
  return factor == 0 || is_whole ? from / to : 1 / factor;
}

}  // namespace

constexpr OpDefinition interpolate_op{.name = "interpolate",
                                      .attributes = {{"size", integers},
                                                     {"scale_factor_h", number},
                                                     {"scale_factor_w", number},
                                                     {"mode", text},
                                                     {"align_corners", boolean}},
                                      .kind = OpKind::composite};
Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  const Op<interpolate_op> op(x, o.size, o.scale_factor[0], o.scale_factor[1], o.mode, o.align_corners);
  check_floating(x);
  check(x.rank() == 4, "expected x (n, c, h, w), got ", describe(x));
  check_options(o);
  Interpolate map{x.shape(), x.shape(), suggest_memory_format(x), InterpolateParams{o.mode, o.align_corners, {1, 1}}};
  auto& params = std::get<InterpolateParams>(map.params);
  for (int i = 0; i < 2; ++i) {
    map.y_shape[2 + i] = output_size(x, i, o);
    params.steps[i] = step_of(x.size(2 + i), map.y_shape[2 + i], o.scale_factor[i], o);
  }
  return op.result(map(x));
}

}  // namespace bytetape
