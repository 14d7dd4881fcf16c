#pragma once
#include "bytetape/core/conv_sizes.h"

// Convolutions of 3x3 taps and their gradients with a quarter of the multiplications, by Winograd's algorithm.
namespace bytetape::cpu::winograd {

/// Whether the kernels below compute this convolution, faster than a direct one: of f32 images in channels-last, with
/// 3x3 taps, a stride and a dilation of 1, one group, channels in multiples of 16, and a result that fills at least
/// half of its tiles of 4x4 pixels, of which there are eight or more. Depends on geometry only.
bool suits(const ConstView& x, const ConstView& weight, const ConstView& y, const Conv2dParams& params);
inline bool suits(const Conv2dArgs& a) { return suits(a.x, a.weight, a.y, a.params); }
inline bool suits(const Conv2dInputGradArgs& a) { return suits(a.gx, a.weight, a.gy, a.params); }
/// Also needs more channels, because two images are transformed for each product.
bool suits(const Conv2dWeightGradArgs& a);

/// The algorithm of the plans below.
inline constexpr std::int64_t algorithm = 1;

// The bits of a result do not depend on the number of threads.
Plan plan_conv2d(const Conv2dArgs& args);
void conv2d(const Conv2dArgs& args, void* workspace);
Plan plan_input_grad(const Conv2dInputGradArgs& args);
void input_grad(const Conv2dInputGradArgs& args, void* workspace);
/// The sums of a weight's gradient are added up in the order of tiles.
Plan plan_weight_grad(const Conv2dWeightGradArgs& args);
void weight_grad(const Conv2dWeightGradArgs& args, void* workspace);

}  // namespace bytetape::cpu::winograd
