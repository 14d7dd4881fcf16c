#pragma once
#include <array>
#include <optional>
#include <vector>

#include "bytetape/core/state_dict.h"
#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// Parameters that are updated by options of their own (an entry of torch.optim.Optimizer.param_groups). Options that
/// are left out are what the optimizer was made with; its documentation says what they mean, and which it has.
///
///     optim::SGD sgd({{.params = backbone.parameters()}, {.params = head.parameters(), .lr = 0.1}},
///                    {.lr = 0.01, .momentum = 0.9});
///     for (optim::ParamGroup& group : sgd.param_groups()) group.lr = *group.lr / 10;
struct ParamGroup {
  std::vector<Tensor> params{};  ///< fixed, once the optimizer is made
  std::optional<double> lr{}, momentum{}, dampening{};
  std::optional<std::array<double, 2>> betas{};
  std::optional<double> eps{}, weight_decay{};
  std::optional<bool> nesterov{};
  std::optional<double> initial_lr{};  ///< lr as the first schedule found it
};

/// Gives the group the options that it leaves out.
void complete(ParamGroup& group, const ParamGroup& defaults);
/// Throws ValueError where it has an option that `defaults` lacks.
void check_has_no_more(const ParamGroup& group, const ParamGroup& defaults);
/// Its options, by name, and how many parameters it has.
StateDict options_of(const ParamGroup& group);
/// A group of the parameters of `group` and the options of `state`, which has the names of options_of(group), and
/// initial_lr or not. Throws ValueError where it is of another number of parameters.
ParamGroup with_options(const ParamGroup& group, const StateDict& state);

}  // namespace bytetape::optim
