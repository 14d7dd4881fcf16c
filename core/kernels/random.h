#pragma once
#include <cstdint>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/random.h"
#include "bytetape/core/view.h"

namespace bytetape {

struct RandpermArgs {
  PhiloxState state;
  View y;
};

/// Numbers drawn as core/random.h says.
struct RandomKernels {
  void (*uniform)(PhiloxState state, double low, double high, const View& y);
  void (*normal)(PhiloxState state, double mean, double std, const View& y);  // Box-Muller, in double
  void (*randint)(PhiloxState state, std::int64_t low, std::int64_t high, const View& y);
  Planned<RandpermArgs> randperm;  // order of 64-bit keys, ties by index
};

}  // namespace bytetape
