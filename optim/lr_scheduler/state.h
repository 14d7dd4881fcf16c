#pragma once
#include "bytetape/core/state_dict.h"

namespace bytetape::optim::lr_scheduler {

/// Throws ValueError if a schedule's state, including those of its parts, has an invalid count or a rate that is not
/// finite.
void check_values(const StateDict& state);

}  // namespace bytetape::optim::lr_scheduler
