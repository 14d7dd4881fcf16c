// A knapsack over the tree of modules, solved from the leaves to the root. For each number of units of memory, a module
// is planned by its best option, or by the best plans of the modules in it.
#include "bytetape/nn/option_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

namespace bytetape::nn {
namespace {

constexpr std::size_t units = 256;

struct Choice {
  double costs = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> options;
};
/// The cheapest choice that saves so many units or more.
using Plan = std::array<Choice, units + 1>;

std::size_t in_units(std::size_t saves, std::size_t bytes) {
  return static_cast<std::size_t>(static_cast<double>(saves) / static_cast<double>(bytes) * units + 0.5);
}

Plan nothing() {
  Plan plan;
  plan[0].costs = 0;
  return plan;
}

/// The cheapest choices of both plans together.
Plan together(const Plan& a, const Plan& b) {
  Plan plan;
  for (std::size_t n = 0; n <= units; ++n) {
    std::size_t of_a = 0;
    for (std::size_t i = 1; i <= n; ++i)
      if (a[i].costs + b[n - i].costs < a[of_a].costs + b[n - of_a].costs) of_a = i;
    plan[n].costs = a[of_a].costs + b[n - of_a].costs;
    plan[n].options = a[of_a].options;
    plan[n].options.insert(plan[n].options.end(), b[n - of_a].options.begin(), b[n - of_a].options.end());
  }
  return plan;
}

}  // namespace

std::vector<std::size_t> cheapest_options(const std::vector<PricedOption>& options,
                                          const std::vector<std::string>& modules, std::size_t bytes) {
  std::map<std::string, Plan> parts;  // of the modules in a module
  const auto plan_of = [&](const std::string& module) {
    const auto its = parts.find(module);
    Plan plan = its == parts.end() ? nothing() : std::move(its->second);
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (options[i].path != module) continue;
      const std::size_t saves = in_units(options[i].saves, bytes);
      for (std::size_t n = 1; n <= std::min(saves, units); ++n)
        if (options[i].costs <= plan[n].costs) plan[n] = {options[i].costs, {i}};
    }
    return plan;
  };
  for (std::size_t i = modules.size(); i-- > 0;) {
    const std::size_t dot = modules[i].rfind('.');
    const std::string parent = dot == std::string::npos ? "" : modules[i].substr(0, dot);
    Plan plan = plan_of(modules[i]);
    const auto [at, is_first] = parts.try_emplace(parent, plan);
    if (!is_first) at->second = together(at->second, plan);
  }
  return plan_of("")[units].options;
}

}  // namespace bytetape::nn
