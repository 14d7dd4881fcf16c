#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void sgd(std::span<const SgdSlot> slots, const SgdParams& p);
void adam(std::span<const AdamSlot> slots, const AdamParams& p);

}  // namespace bytetape::cpu
