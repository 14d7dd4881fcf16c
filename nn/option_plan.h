#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace bytetape::nn {

/// A checkpoint of one module, or Recompute in it, with the bytes and the time of this option alone.
struct PricedOption {
  std::string path;       ///< of the module; "" for the model
  std::size_t saves = 0;  ///< bytes
  double costs = 0;       ///< added time of a step, in seconds
};

/// Returns the options that together save at least `bytes` in the least time, as indices. Returns no options if they
/// cannot save that much. No module of the result contains another one, so savings add up. `modules` has all paths,
/// each module before those in it. Savings are rounded to 1/256 of `bytes`, so each option may add an error of 1/512.
std::vector<std::size_t> cheapest_options(const std::vector<PricedOption>& options,
                                          const std::vector<std::string>& modules, std::size_t bytes);

}  // namespace bytetape::nn
