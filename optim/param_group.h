#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "bytetape/core/state_dict.h"
#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// The factor of Muon's lr for a matrix (m, n): sqrt(max(1, m / n)) for `original`, 0.2 sqrt(max(m, n)) for
/// `match_rms_adamw`.
enum class AdjustLr : std::uint8_t { original, match_rms_adamw };

/// A group of parameters with its own options (an entry of torch.optim.Optimizer.param_groups).
///
/// An option that is left out has the value that the optimizer was made with. The optimizer documents which options it
/// supports.
///
///     optim::SGD sgd({{.params = backbone.parameters()}, {.params = head.parameters(), .lr = 0.1}},
///                    {.lr = 0.01, .momentum = 0.9});
///     for (optim::ParamGroup& group : sgd.param_groups()) group.lr = *group.lr / 10;
struct ParamGroup {
  std::vector<Tensor> params{};  ///< fixed once the optimizer has the group
  std::optional<double> lr{}, momentum{}, dampening{};
  std::optional<std::array<double, 2>> betas{};
  std::optional<double> alpha{}, eps{}, weight_decay{};
  std::optional<bool> nesterov{}, centered{};
  std::optional<std::array<double, 3>> ns_coefficients{};
  std::optional<std::int64_t> ns_steps{};
  std::optional<AdjustLr> adjust_lr_fn{};
  std::optional<double> initial_lr{};  ///< lr before the first schedule
};

/// Sets the options that `group` leaves out to those of `defaults`.
void complete(ParamGroup& group, const ParamGroup& defaults);
/// Throws ValueError if `group` has an option that `defaults` lacks.
void check_has_no_more(const ParamGroup& group, const ParamGroup& defaults);
/// Returns the group's options by name, and the number of its parameters.
StateDict options_of(const ParamGroup& group);
/// Returns a group with the parameters of `group` and the options of `state`.
/// `state` has the names of options_of(group); initial_lr is optional.
/// Throws ValueError if `state` is of another number of parameters.
ParamGroup with_options(const ParamGroup& group, const StateDict& state);

}  // namespace bytetape::optim
