#include "bytetape/autograd/grad_mode.h"

#include <utility>

#include "bytetape/autograd/ambient.h"

namespace bytetape {

using detail::autograd_ambient;

bool grad_enabled() { return autograd_ambient.grad_mode; }
GradMode::GradMode(bool on) : previous_(std::exchange(autograd_ambient.grad_mode, on)) {}
GradMode::~GradMode() { autograd_ambient.grad_mode = previous_; }

bool recomputing() { return autograd_ambient.recompute; }
Recompute::Recompute() : previous_(std::exchange(autograd_ambient.recompute, true)) {}
Recompute::~Recompute() { autograd_ambient.recompute = previous_; }

}  // namespace bytetape
