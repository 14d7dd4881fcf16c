#pragma once
#include <bytetape/core/memory/log.h>

#include <functional>
#include <string>
#include <vector>

namespace bytetape::bench {

/// A named trace of requests and frees.
struct Trace {
  std::string name;
  memory::DeviceLog device;
};

/// Returns traces of the examples' models in training and tests, as predicted for a GPU: with batches of one size
/// except the last, and with batches of any size.
std::vector<Trace> model_traces();

/// Calls f(trace) for 640 traces: five models of the examples, in f32 and under autocast to bf16, with sixteen batch
/// sizes, in four programs, which name them.
void each_of_grid(const std::function<void(const Trace&)>& f);

/// Returns traces of a transformer with sequences of any length, and of blocks with random sizes and lifetimes. The
/// seeds are fixed.
std::vector<Trace> synthetic_traces();

}  // namespace bytetape::bench
