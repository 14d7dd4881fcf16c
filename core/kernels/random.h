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

/// Random numbers from the Philox stream of core/random.h.
struct RandomKernels {
  void (*uniform)(PhiloxState state, double low, double high, const View& y);
  void (*normal)(PhiloxState state, double mean, double std, const View& y);  // Box-Muller, in double
  void (*randint)(PhiloxState state, std::int64_t low, std::int64_t high, const View& y);
  Planned<RandpermArgs> randperm;  // sorts by 64-bit keys, then by index
};

}  // namespace bytetape
