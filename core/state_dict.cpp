#include "bytetape/core/state_dict.h"

#include <algorithm>
#include <set>

#include "bytetape/core/error.h"

namespace bytetape {
namespace {

auto find(const StateDict& state, std::string_view name) {
  return std::find_if(state.tensors.begin(), state.tensors.end(), [&](const auto& t) { return t.first == name; });
}

StateDict::Number number_of(const StateDict& state, const std::string& name) {
  const auto at = state.numbers.find(name);
  check<ValueError>(at != state.numbers.end(), "the state has no number '", name, "'");
  return at->second;
}

/// The names of tensors and numbers, marked by kind.
std::set<std::string> names_of(const StateDict& state) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : state.tensors) names.insert("tensor '" + name + "'");
  for (const auto& [name, number] : state.numbers) names.insert("number '" + name + "'");
  return names;
}

std::string missing_from(const std::set<std::string>& names, const std::set<std::string>& wanted) {
  std::string list;
  for (const std::string& name : wanted)
    if (!names.contains(name)) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

void StateDict::add(std::string_view prefix, const StateDict& part) {
  const std::string path = std::string(prefix) + ".";
  std::set<std::string_view> there;
  for (const auto& [name, tensor] : tensors) there.insert(name);
  for (const auto& [name, tensor] : part.tensors)
    check<ValueError>(!there.contains(path + name), "the state already has a tensor '", path, name, "'");
  for (const auto& [name, number] : part.numbers)
    check<ValueError>(!numbers.contains(path + name), "the state already has a number '", path, name, "'");
  for (const auto& [name, tensor] : part.tensors) tensors.emplace_back(path + name, tensor);
  for (const auto& [name, number] : part.numbers) numbers.emplace(path + name, number);
}

StateDict StateDict::part(std::string_view prefix) const {
  const std::string path = std::string(prefix) + ".";
  StateDict found;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(path)) found.tensors.emplace_back(name.substr(path.size()), tensor);
  for (const auto& [name, number] : numbers)
    if (name.starts_with(path)) found.numbers.emplace(name.substr(path.size()), number);
  return found;
}

bool StateDict::has_tensor(std::string_view name) const { return find(*this, name) != tensors.end(); }

const Tensor& StateDict::tensor(std::string_view name) const {
  const auto at = find(*this, name);
  check<ValueError>(at != tensors.end(), "the state has no tensor '", name, "'");
  return at->second;
}

std::int64_t StateDict::integer(const std::string& name) const {
  const Number number = number_of(*this, name);
  const auto* value = std::get_if<std::int64_t>(&number);
  check<ValueError>(value, "the state's '", name, "' must be an integer, got ", this->number(name));
  return *value;
}

double StateDict::number(const std::string& name) const {
  return std::visit([](auto v) { return static_cast<double>(v); }, number_of(*this, name));
}

void check_names(const StateDict& state, const StateDict& expected) {
  const auto names = names_of(state), wanted = names_of(expected);
  const std::string missing = missing_from(names, wanted), unexpected = missing_from(wanted, names);
  check<ValueError>(
      missing.empty() && unexpected.empty(), "the state does not fit:", missing.empty() ? "" : " missing " + missing,
      missing.empty() || unexpected.empty() ? "" : ";", unexpected.empty() ? "" : " unexpected " + unexpected);
  for (const auto& [name, number] : expected.numbers)
    if (std::holds_alternative<std::int64_t>(number)) state.integer(name);
}

}  // namespace bytetape
