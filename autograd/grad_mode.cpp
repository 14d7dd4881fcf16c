#include "bytetape/autograd/grad_mode.h"

#include <algorithm>
#include <utility>

#include "bytetape/autograd/ambient.h"

namespace bytetape {

using detail::autograd_ambient;

bool grad_enabled() { return autograd_ambient.grad_mode; }
GradMode::GradMode(bool on) : previous_(std::exchange(autograd_ambient.grad_mode, on)) {}
GradMode::~GradMode() { autograd_ambient.grad_mode = previous_; }

using detail::RecomputeMode;

bool recomputing() { return autograd_ambient.recompute != RecomputeMode::none; }
Recompute::Recompute(bool only_exact) : previous_(autograd_ambient.recompute) {
  autograd_ambient.recompute = std::max(previous_, only_exact ? RecomputeMode::exact : RecomputeMode::all);
}
Recompute::~Recompute() { autograd_ambient.recompute = previous_; }

}  // namespace bytetape
