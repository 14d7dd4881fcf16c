#pragma once
#include "bytetape/core/state_dict.h"

namespace bytetape::optim::lr_scheduler {

/// Throws ValueError where a state of schedules, one of a list's among them, has a count that is none, or a rate that
/// is not finite.
void check_values(const StateDict& state);

}  // namespace bytetape::optim::lr_scheduler
