#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/state_dict.h"
#include "bytetape/core/tensor.h"
#include "bytetape/optim/param_group.h"
#include "bytetape/optim/parameters.h"

/// Optimizers.
namespace bytetape::optim {

/// Base class of optimizers, which update parameters by their gradients (torch.optim.Optimizer).
///
/// An optimizer keeps handles to the parameters, which share their data with the module's. A parameter's first step
/// allocates its state, with the role `optimizer state`, booked under the parameter's module.
class Optimizer {
 public:
  /// `name` is the optimizer's name in errors and on the ledger ("sgd"). `defaults` has the options that the optimizer
  /// supports, with their values for groups that leave them out. lr is always one; its default is 0.
  /// Throws ValueError if there is no parameter, a group has an option that `defaults` lacks, or two parameters share
  /// memory.
  /// Throws ValueError if a parameter is listed twice, undefined, not a leaf or not dense.
  /// Throws DTypeError if a parameter is not floating.
  /// Throws DeviceError if parameters are on different devices.
  Optimizer(std::vector<ParamGroup> groups, const ParamGroup& defaults, std::string_view name);
  /// Creates an optimizer with one group, whose only option is lr.
  Optimizer(std::vector<Tensor> parameters, std::string_view name);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates each parameter that has a gradient, in place. Not recorded on the tape.
  /// Other parameters and their state do not change. A device skips the step while a fault is pending
  /// (core/device/fault.h). A skipped step is not counted: the first step after the fault was thrown waits for the
  /// device's count.
  /// Throws ValueError if an assignment has replaced a parameter in its module, or a dist::Sharded has divided it.
  /// Throws ShapeError, DTypeError or DeviceError if a gradient is not like its parameter, as after set_data().
  /// Nothing has been updated then.
  void step() {
    take_step(nullptr, [] {});
  }
  /// Sets the gradients to undefined (PyTorch's set_to_none).
  void zero_grad();

  /// Adds a group, which the next step updates as well (torch.optim.Optimizer.add_param_group).
  ///
  /// Options that it leaves out default to the values of the optimizer's constructor. The group's parameters have taken
  /// no steps. A schedule takes up the group in its next step(). Replays of a step that was captured before throw
  /// CaptureError. Spans of param_groups() become invalid. Waits for the device, and throws a fault that is pending.
  ///
  ///     for (Tensor p : backbone.parameters()) p.set_requires_grad();  // frozen until now
  ///     adam.add_param_group({.params = backbone.parameters(), .lr = 1e-5});
  ///
  /// Throws what the constructor throws for such a group, and ValueError if the optimizer has one of its parameters.
  /// Throws CaptureError if a step is being captured. The optimizer is then unchanged.
  void add_param_group(ParamGroup group);
  /// Returns the groups, whose options may be changed.
  /// Changes apply from the next step on, also to replays of a captured step. An option that is reset gets the value
  /// that the optimizer was made with. step() throws ValueError if an option is out of range, as the constructor does.
  std::span<ParamGroup> param_groups();
  std::span<const ParamGroup> param_groups() const { return groups_; }
  /// Returns the learning rate of the first group.
  double lr() const { return groups_[0].lr.value_or(*defaults_.lr); }
  /// Sets the learning rate of all groups, from the next step on.
  /// Throws ValueError if `lr` is negative or not finite.
  void set_lr(double lr);
  /// Returns the parameters of all groups, in order.
  const std::vector<Tensor>& parameters() const { return parameters_; }

  /// Returns the state: "param_groups.0.lr", and for parameters that have taken steps "state.0.step" and tensors with
  /// PyTorch's names ("state.0.exp_avg"). Waits for the device, and throws a fault that is pending.
  StateDict state_dict();
  /// Restores a state, converted to each parameter's dtype and device. Later steps are bit-identical to those of the
  /// optimizer that the state was taken from. Construct schedules before: their constructors set rates.
  /// Throws ValueError, naming what is missing or unexpected, if the names do not match.
  /// Throws ShapeError if a shape does not match. Nothing has been written then.
  void load_state_dict(const StateDict& state);

 protected:
  memory::NameId name() const { return name_; }
  /// Returns the part of a slot that all optimizers share: parameter i, its 16-bit autocast copy, its gradient g, and
  /// the device's count of its skipped steps.
  OptimizerSlot slot(std::size_t i, const Tensor& g) const;
  /// The indices of the parameters that the last step updates, in the order of their slots.
  const std::vector<std::size_t>& moved() const { return moved_; }
  /// The number of steps that parameter i has taken, including the current one. Under a gradient scaler, the number of
  /// steps launched, as only the device knows which it skipped.
  std::int64_t steps(std::size_t i) const { return is_scaled_ ? given_[i] : given_[i] - known_skips_[i]; }
  /// In a step that is being captured: device memory from which a replay reads the step params. Else null.
  const void* replay_params() const { return replay_params_; }
  /// In a step under a gradient scaler: device memory that is 0 if the step is to be taken. Else null.
  const float* found_inf() const { return found_inf_; }
  /// The number of thrown faults that the step params account for; nullopt if the device itself counts skipped steps.
  std::optional<std::uint64_t> faults_seen() const {
    const bool is_counted_here = skips_.defined() && !skips_.device().is_meta && !is_scaled_ && !replay_params_;
    return is_counted_here ? std::optional(faults_seen_) : std::nullopt;
  }
  /// The slots that launch() must update last. Pass them to the kernel, or call late().wait().
  const LateSlots& late() const { return late_; }
  /// The group of parameter i, with its options.
  const ParamGroup& group(std::size_t i) const { return groups_[group_of_[i]]; }
  /// Checks the options of all groups. Constructors of derived classes call it.
  void check_groups();
  void check_group(const ParamGroup& group) const;
  /// A tensor that an optimizer keeps for a parameter from step to step.
  struct State {
    std::string_view name;     // PyTorch's name
    Tensor* tensor;            // undefined until the first step
    bool is_optional = false;  // may still be undefined after steps
  };
  bool has_taken_steps(std::size_t i) const { return given_[i] > 0; }
  /// Throws ValueError, naming the argument, if `value` is negative, infinite or NaN.
  static void check_not_negative(const char* name, double value);

 private:
  friend class GradScaler;
  /// Takes a step. Under a gradient scaler, `found_inf` is the scaler's flag in device memory, else null. `unscale`
  /// unscales the gradients if that was not done. It is called once all memory of the step is allocated.
  void take_step(const float* found_inf, const std::function<void()>& unscale);
  /// Throws ValueError, naming the option, if an option is out of its range.
  virtual void check_options(const ParamGroup&) const {}
  /// Returns a check for replays of the step that is being captured. The check throws CaptureError if a replay cannot
  /// use the options of its time.
  virtual std::function<void()> replay_check() const {
    return [] {};
  }
  /// Makes places for the state of `count` parameters, the old ones first. add_param_group() calls it.
  /// Throws NotImplemented if it is not overridden.
  virtual void resize_states(std::size_t count);
  /// Returns the state tensors of parameter i.
  virtual std::vector<State> states(std::size_t) { return {}; }
  // A step calls these four in order. On a replay the host calls advance() only.

  /// Makes a slot, and missing state, for each moved() parameter. `gradients` is indexed by parameter.
  /// Allocates all memory of a step, so that a step that ran out of memory can be taken again.
  virtual void prepare(const std::vector<Tensor>& gradients) = 0;
  /// Counts the step on the host, and sets the step params.
  void advance(bool is_scaled);
  /// Launches the kernel that updates the parameters of all slots.
  virtual void launch() = 0;
  /// Bumps the versions of the updated parameters.
  void note_writes();

  /// Sets the step params of each slot from its group() and steps().
  virtual void set_step_params() = 0;
  /// Returns the step params as bytes, as kernels read them at replay_params().
  virtual std::span<const std::byte> step_params() const = 0;
  void count_step(bool is_scaled);
  void record_advance(bool is_scaled);
  std::vector<Tensor> gradients() const;
  void put_late_last();
  void make_skip_counts(bool is_scaled);
  void read_skip_counts(bool surely = false);
  void drop_skip_counts();
  void forget_skips();
  struct Loaded;
  void read_parameter(const StateDict& state, std::size_t i, Loaded& loaded, StateDict& expected);
  Loaded read_state(const StateDict& state);

  std::vector<ParamGroup> groups_;
  ParamGroup defaults_;  // has no parameters
  std::vector<Tensor> parameters_;
  std::vector<std::size_t> group_of_;  // by parameter
  std::vector<std::int64_t> given_;    // by parameter: number of steps launched on the device
  std::vector<std::size_t> moved_;
  LateSlots late_;
  Tensor skips_;                           // by parameter: number of launched steps that the device skipped
  std::vector<std::int64_t> known_skips_;  // skips_ as last read
  bool is_scaled_ = false;                 // the last step was under a gradient scaler, so skips_ may have changed
  std::uint64_t faults_seen_ = 0, zeroed_ = 0;
  memory::NameId name_;
  const void* replay_params_ = nullptr;
  const float* found_inf_ = nullptr;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // captured steps and scalers check it
};

}  // namespace bytetape::optim
