#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/random.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// Numbers drawn as core/random.h says.
struct RandomKernels {
  void (*uniform)(PhiloxState state, double low, double high, const View& y);
  void (*normal)(PhiloxState state, double mean, double std, const View& y);  // Box-Muller, in double
  void (*randint)(PhiloxState state, std::int64_t low, std::int64_t high, const View& y);
  std::size_t (*randperm_workspace)(const View& y);
  void (*randperm)(PhiloxState state, const View& y, Workspace ws);  // order of 64-bit keys, ties by index
};

}  // namespace bytetape
