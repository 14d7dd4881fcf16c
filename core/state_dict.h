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

/// The state of an optimizer, schedule, average or gradient scaler, as its state_dict() returns it.
/// Names are unique dotted paths, as those of a Module ("state.0.exp_avg", "param_groups.1.lr").
struct StateDict {
  using Number = std::variant<std::int64_t, double>;

  std::vector<std::pair<std::string, Tensor>> tensors;  ///< shared with the owner: clone to outlive its next step
  std::map<std::string, Number> numbers;                ///< doubles are stored bit for bit, also infinities

  /// Adds all of `part`, with "prefix." before each name.
  /// Throws ValueError if a name exists already.
  void add(std::string_view prefix, const StateDict& part);
  /// Returns all names that begin with "prefix.", without it.
  StateDict part(std::string_view prefix) const;

  bool has_tensor(std::string_view name) const;
  /// Throws ValueError if there is no tensor of this name.
  const Tensor& tensor(std::string_view name) const;
  /// Throws ValueError if there is no integer of this name.
  std::int64_t integer(const std::string& name) const;
  /// Throws ValueError if there is no number of this name.
  double number(const std::string& name) const;
};

/// Throws ValueError, listing the missing and unexpected names, if `state` and `expected` have different names, or if
/// `state` has a double where an integer is expected.
void check_names(const StateDict& state, const StateDict& expected);

}  // namespace bytetape
