#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// What training goes on from, by name: the state_dict() of optimizers, schedules, averages and gradient scalers. Names
/// are paths with dots, as a Module's ("state.0.exp_avg", "param_groups.1.lr"), each given once.
struct StateDict {
  using Number = std::variant<std::int64_t, double>;

  std::vector<std::pair<std::string, Tensor>> tensors;  ///< the owner's own: clone what is to outlive its next step
  std::map<std::string, Number> numbers;                ///< doubles count bit for bit, infinite ones too

  /// Adds all of `part`, each name behind "prefix.". Throws ValueError where one is there already.
  void add(std::string_view prefix, const StateDict& part);
  /// What lies behind "prefix.", without it.
  StateDict part(std::string_view prefix) const;

  bool has_tensor(std::string_view name) const;
  /// Throws ValueError where there is none of the name.
  const Tensor& tensor(std::string_view name) const;
  /// Throws ValueError where there is none of the name, or only a double.
  std::int64_t integer(const std::string& name) const;
  /// Throws ValueError where there is none of the name.
  double number(const std::string& name) const;
};

/// Throws ValueError, naming every missing and unexpected name, where `state` has others than `expected`, and where it
/// has a double for an integer.
void check_names(const StateDict& state, const StateDict& expected);

}  // namespace bytetape
