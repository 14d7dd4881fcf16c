#pragma once
#include "examples/program.h"

namespace bytetape::examples {

/// Adds --race and --seeds to the CIFAR-10 example, which then runs the race in place of training.
void add_race(Example& example);

}  // namespace bytetape::examples
