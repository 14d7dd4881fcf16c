#pragma once
#include <bytetape/core/memory/log.h>

#include <functional>
#include <string>
#include <vector>

namespace bytetape::bench {

/// Requests and frees, under a name.
struct Trace {
  std::string name;
  memory::DeviceLog device;
};

/// What the examples' models ask for in training and in tests, as predicted for a GPU: with batches of one size but for
/// the last, and with batches of any size.
std::vector<Trace> model_traces();

/// f(trace) for each of 640: five models of the examples, in f32 and under autocast to bf16, at sixteen batches, in
/// four programs, after which they are named.
void each_of_grid(const std::function<void(const Trace&)>& f);

/// What sequences of any length ask for in a transformer, and blocks of random sizes and lives. Of fixed seeds.
std::vector<Trace> synthetic_traces();

}  // namespace bytetape::bench
