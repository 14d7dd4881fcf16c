#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void cross_entropy(ConstView logits, ConstView target, std::int64_t ignore, double smoothing, View losses, View lse);
void cross_entropy_backward(ConstView logits, ConstView target, ConstView lse, ConstView gy, std::int64_t ignore,
                            double smoothing, View gx);
void target_range(ConstView target, std::int64_t ignore, View y);

}  // namespace bytetape::cpu
