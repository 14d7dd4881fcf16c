#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {
namespace {

std::string group_path(std::size_t g) { return "param_groups." + std::to_string(g); }
std::string state_path(std::size_t i) { return "state." + std::to_string(i); }
constexpr std::int64_t most_steps = std::int64_t{1} << 53;  // doubles represent all integers up to it

}  // namespace

StateDict Optimizer::state_dict() {
  const memory::OpScope op(name_);
  detail::refuse_in_capture("reads an optimizer's state");
  read_skip_counts(true);
  StateDict all;
  for (std::size_t g = 0; g < groups_.size(); ++g) all.add(group_path(g), options_of(param_groups()[g]));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t taken = given_[i] - known_skips_[i];
    if (taken == 0) continue;
    StateDict kept;
    kept.numbers["step"] = taken;
    for (const State& s : states(i))
      if (s.tensor->defined()) kept.tensors.emplace_back(s.name, *s.tensor);
    all.add(state_path(i), kept);
  }
  return all;
}

/// A state that was checked against the optimizer.
struct Optimizer::Loaded {
  struct Kept {
    Tensor* place;
    Tensor memory, values;  // values: undefined if the parameter has none
  };
  std::vector<ParamGroup> groups{};
  std::vector<std::int64_t> steps{};  // by parameter
  std::vector<Kept> kept{};
};

/// Reads the state of parameter i into `loaded`. Adds the names that it read to `expected`.
void Optimizer::read_parameter(const StateDict& state, std::size_t i, Loaded& loaded, StateDict& expected) {
  const Tensor& p = parameters_[i];
  const std::string path = state_path(i);
  const StateDict given = state.part(path);
  StateDict wanted;
  const bool has_steps = !given.numbers.empty() || !given.tensors.empty();
  loaded.steps.push_back(has_steps ? state.integer(path + ".step") : 0);
  if (has_steps) wanted.numbers["step"] = loaded.steps[i];
  check<ValueError>(!has_steps || (loaded.steps[i] > 0 && loaded.steps[i] < most_steps), "the state's '", path,
                    ".step' must be positive and below 2^53, got ", loaded.steps[i]);
  for (const State& s : states(i)) {
    Loaded::Kept kept{s.tensor, *s.tensor, {}};
    if (kept.memory.defined()) check_state(kept.memory, p);
    if (has_steps && (!s.is_optional || given.has_tensor(s.name))) {
      kept.values = state.tensor(path + "." + std::string(s.name));
      check(kept.values.defined() && kept.values.shape() == p.shape(), "the state's '", path, ".", s.name,
            "' does not fit the parameter ", describe(p));
      check<DeviceError>(!kept.values.device().is_meta || p.device().is_meta, "the state's '", path, ".", s.name, "', ",
                         describe(kept.values), ", holds no data");
      if (!kept.memory.defined()) kept.memory = new_state(p);
      wanted.tensors.emplace_back(s.name, kept.values);
    }
    loaded.kept.push_back(kept);
  }
  expected.add(path, wanted);
}

/// Reads and checks the whole state, and allocates missing memory, before anything is written.
Optimizer::Loaded Optimizer::read_state(const StateDict& state) {
  Loaded loaded;
  StateDict expected;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    StateDict options = options_of(param_groups()[g]);
    options.numbers.erase("initial_lr");  // only a schedule sets it
    if (state.numbers.contains(group_path(g) + ".initial_lr")) options.numbers["initial_lr"] = 0.0;
    expected.add(group_path(g), options);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) read_parameter(state, i, loaded, expected);
  check_names(state, expected);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    check_group(loaded.groups.emplace_back(with_options(param_groups()[g], state.part(group_path(g)))));
  return loaded;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const memory::PhaseScope phase(memory::Phase::optimizer);
  const memory::OpScope op(name_);
  const NoGrad no_grad;
  detail::refuse_in_capture("loads an optimizer's state");
  Loaded loaded = read_state(state);
  for (const auto& [place, memory, values] : loaded.kept) {
    if (!memory.defined()) continue;
    if (!values.defined())
      run<&CopyKernels::fill>(memory.device(), Scalar(0), memory.write());
    else if (!values.is_same(memory))
      copy_across(values, memory);
    memory.storage().bump_version();
    *place = memory;
  }
  groups_ = std::move(loaded.groups);
  given_ = std::move(loaded.steps);
  known_skips_.assign(given_.size(), 0);
  is_scaled_ = false;
  if (skips_.defined()) run<&CopyKernels::fill>(skips_.device(), Scalar(0), skips_.write());
}

}  // namespace bytetape::optim
