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

/// Draws by uniform numbers u in [0, 1) from the rows of p (m, n), whose sums need not be 1. All but y are f64, and all
/// are row-major. A row is a fault (core/device/fault.h) if it has a negative or non-finite element, or too few
/// positive ones.
struct MultinomialArgs {
  ConstView p, cumulative;  // cumulative: the cumulative sums of the rows
  ConstView u;              // (m, k)
  View y;                   // (m, k), i64: the places, drawn with replacement
};
/// Replaces u (m, n) by log(1 - u) / p. The places of the k largest of a row are k draws without replacement, in their
/// order (Efraimidis & Spirakis, "Weighted random sampling with a reservoir", 2006).
struct MultinomialRaceArgs {
  ConstView p;
  std::int64_t k;
  View u;
};

/// Random numbers from the Philox stream of core/random.h.
struct RandomKernels {
  void (*uniform)(PhiloxState state, double low, double high, const View& y);
  void (*normal)(PhiloxState state, double mean, double std, const View& y);  // Box-Muller, in double
  void (*randint)(PhiloxState state, std::int64_t low, std::int64_t high, const View& y);
  Planned<RandpermArgs> randperm;  // sorts by 64-bit keys, then by index
  void (*multinomial)(const MultinomialArgs& args);
  void (*multinomial_race)(const MultinomialRaceArgs& args);
};

}  // namespace bytetape
