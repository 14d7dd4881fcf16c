#include "bytetape/optim/param_group.h"

#include "bytetape/core/error.h"

namespace bytetape::optim {
namespace {

/// Calls f(name, pointer to member) for every option of any optimizer.
template <class F>
void for_each_option(F&& f) {
  f("lr", &ParamGroup::lr);
  f("momentum", &ParamGroup::momentum);
  f("dampening", &ParamGroup::dampening);
  f("betas", &ParamGroup::betas);
  f("alpha", &ParamGroup::alpha);
  f("eps", &ParamGroup::eps);
  f("weight_decay", &ParamGroup::weight_decay);
  f("nesterov", &ParamGroup::nesterov);
  f("centered", &ParamGroup::centered);
  f("ns_coefficients", &ParamGroup::ns_coefficients);
  f("ns_steps", &ParamGroup::ns_steps);
  f("adjust_lr_fn", &ParamGroup::adjust_lr_fn);
}

void put(StateDict& state, const std::string& name, double value) { state.numbers[name] = value; }
void put(StateDict& state, const std::string& name, bool value) { state.numbers[name] = std::int64_t{value}; }
void put(StateDict& state, const std::string& name, std::int64_t value) { state.numbers[name] = value; }
void put(StateDict& state, const std::string& name, AdjustLr value) {
  state.numbers[name] = static_cast<std::int64_t>(value);
}
template <std::size_t n>
void put(StateDict& state, const std::string& name, const std::array<double, n>& values) {
  for (std::size_t i = 0; i < n; ++i) put(state, name + "." + std::to_string(i), values[i]);
}

void get(const StateDict& state, const std::string& name, double& value) { value = state.number(name); }
void get(const StateDict& state, const std::string& name, bool& value) { value = state.integer(name) != 0; }
void get(const StateDict& state, const std::string& name, std::int64_t& value) { value = state.integer(name); }
void get(const StateDict& state, const std::string& name, AdjustLr& value) {
  const std::int64_t number = state.integer(name);
  check<ValueError>(number == 0 || number == 1, "the state's '", name, "' must be 0 or 1, got ", number);
  value = static_cast<AdjustLr>(number);
}
template <std::size_t n>
void get(const StateDict& state, const std::string& name, std::array<double, n>& values) {
  for (std::size_t i = 0; i < n; ++i) get(state, name + "." + std::to_string(i), values[i]);
}

}  // namespace

void complete(ParamGroup& group, const ParamGroup& defaults) {
  for_each_option([&](const char*, auto option) {
    if (!(group.*option)) group.*option = defaults.*option;
  });
}

void check_has_no_more(const ParamGroup& group, const ParamGroup& defaults) {
  for_each_option([&](const char* name, auto option) {
    check<ValueError>(!(group.*option) || defaults.*option, "a parameter group has ", name,
                      ", which is not an option of this optimizer");
  });
}

StateDict options_of(const ParamGroup& group) {
  StateDict state;
  state.numbers["params"] = static_cast<std::int64_t>(group.params.size());
  for_each_option([&](const char* name, auto option) {
    if (group.*option) put(state, name, *(group.*option));
  });
  if (group.initial_lr) put(state, "initial_lr", *group.initial_lr);
  return state;
}

ParamGroup with_options(const ParamGroup& group, const StateDict& state) {
  ParamGroup loaded = group;
  for_each_option([&](const char* name, auto option) {
    if (loaded.*option) get(state, name, *(loaded.*option));
  });
  if (state.numbers.contains("initial_lr")) loaded.initial_lr = state.number("initial_lr");
  const std::int64_t params = state.integer("params");
  check<ValueError>(params == static_cast<std::int64_t>(group.params.size()), "expected a parameter group of ",
                    group.params.size(), " parameters in the state, got ", params);
  return loaded;
}

}  // namespace bytetape::optim
