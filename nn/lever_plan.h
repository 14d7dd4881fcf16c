#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace bytetape::nn {

/// Something that can be done to a module, and its effect alone.
struct PricedLever {
  std::string path;       ///< of the module; "" for the model
  std::size_t saves = 0;  ///< bytes
  double costs = 0;       ///< time
};

/// Returns the cheapest levers that together save `bytes`, as indices into `levers`. No module of the result contains
/// another one, so what the levers save adds up. Empty if they cannot save that much.
/// `modules` has the path of each module, each one before the modules in it. Savings are rounded to 1/256 of `bytes`,
/// so the sum may be off by as much as half of that for each lever.
std::vector<std::size_t> cheapest_levers(const std::vector<PricedLever>& levers,
                                         const std::vector<std::string>& modules, std::size_t bytes);

}  // namespace bytetape::nn
