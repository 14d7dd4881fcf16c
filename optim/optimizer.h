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

/// Base of what updates parameters by their gradients. Keeps handles to the parameters, which share their data with the
/// module's. Its state is made on a parameter's first step, under the role `optimizer state`, and booked under the
/// module that the parameter belongs to.
class Optimizer {
 public:
  /// `name` is what errors and the ledger call the optimizer ("sgd"); `defaults` are the options that it has, and what
  /// groups that leave them out go by; lr is one, 0 where it is left out. Throws ValueError where there is no
  /// parameter, one comes twice or is undefined, not a leaf or not dense, or a group has another option; DTypeError on
  /// integers, and DeviceError where devices differ.
  Optimizer(std::vector<ParamGroup> groups, const ParamGroup& defaults, std::string_view name);
  /// One group, of no option but lr.
  Optimizer(std::vector<Tensor> parameters, std::string_view name);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, in place; the others, and their state, stay as they are. Not
  /// recorded. On a device a step does nothing while a fault is pending (core/device/fault.h), and once the fault was
  /// thrown it counts as not taken: the first step after one waits for the device. Throws ValueError where an
  /// assignment has put another tensor in a parameter's place in its module.
  void step() {
    take_step(nullptr, [] {});
  }
  /// Drops the gradients (PyTorch's set_to_none).
  void zero_grad();

  /// Their options are for whoever comes to change, and go for the steps from then on, a captured step's replays too;
  /// one that is reset is again what the optimizer was made with. step() throws ValueError on what the constructor
  /// refuses.
  std::span<ParamGroup> param_groups();
  std::span<const ParamGroup> param_groups() const { return groups_; }
  /// Of the first group.
  double lr() const { return groups_[0].lr.value_or(*defaults_.lr); }
  /// Of every group, for the steps from now on. Throws ValueError on a negative rate.
  void set_lr(double lr);
  /// Of all groups, in their order.
  const std::vector<Tensor>& parameters() const { return parameters_; }

  /// What training goes on from: "param_groups.0.lr", and of the parameters that have taken steps "state.0.step" and
  /// PyTorch's names for what is kept ("state.0.exp_avg"). Waits for the device, and throws a fault that is pending.
  StateDict state_dict();
  /// Copies it in, converted to each parameter's dtype and device; steps from then on are, bit for bit, those of the
  /// optimizer that it was taken from. Make schedules before: they set rates when they are made. Throws ValueError,
  /// naming what is missing or unexpected, and ShapeError, before anything is written.
  void load_state_dict(const StateDict& state);

 protected:
  memory::NameId name() const { return name_; }
  /// What slots have in common: parameter i, its 16-bit copy under autocast, its gradient g, and where its skipped
  /// steps are counted.
  OptimizerSlot slot(std::size_t i, const Tensor& g) const;
  /// Parameters of the last step, by the order of their slots.
  const std::vector<std::size_t>& moved() const { return moved_; }
  /// Steps that parameter i has taken, the one that is being taken included; under a gradient scaler those that the
  /// device was given, which knows what it skipped.
  std::int64_t steps(std::size_t i) const { return is_scaled_ ? given_[i] : given_[i] - known_skips_[i]; }
  /// Of a step that is being captured: memory of the device where a replay finds step params(); else null.
  const void* replay_params() const { return replay_params_; }
  /// Of a step under a gradient scaler: memory of the device where 0 says that it is to be taken; else null.
  const float* found_inf() const { return found_inf_; }
  /// How many thrown faults of the device the step params take into account; nothing where the device counts.
  std::optional<std::uint64_t> faults_seen() const {
    const bool is_counted_here = skips_.defined() && !skips_.device().is_meta && !is_scaled_ && !replay_params_;
    return is_counted_here ? std::optional(faults_seen_) : std::nullopt;
  }
  /// The options of parameter i.
  const ParamGroup& group(std::size_t i) const { return groups_[group_of_[i]]; }
  /// check_options() of every group; for constructors.
  void check_groups();
  void check_group(const ParamGroup& group) const;
  /// What is kept of a parameter from step to step.
  struct State {
    std::string_view name;     // PyTorch's
    Tensor* tensor;            // undefined before the first step
    bool is_optional = false;  // a parameter that has taken steps may lack it
  };
  bool has_taken_steps(std::size_t i) const { return given_[i] > 0; }
  /// Throws ValueError naming the argument, also on a NaN.
  static void check_not_negative(const char* name, double value);

 private:
  friend class GradScaler;
  /// step(); under a gradient scaler with its word of device memory, and `unscale` for what is left to do to the
  /// gradients, once nothing can fail for want of memory.
  void take_step(const float* found_inf, const std::function<void()>& unscale);
  /// Throws ValueError, naming the option, where one is out of its range.
  virtual void check_options(const ParamGroup&) const {}
  /// Of the step that is recorded: what throws CaptureError where its replay cannot step by the options of then.
  virtual std::function<void()> replay_check() const {
    return [] {};
  }
  /// What is kept of parameter i.
  virtual std::vector<State> states(std::size_t) { return {}; }
  // Then it is these four in turn; of one that is captured and replayed the host takes the second alone.

  /// Makes a slot for each moved() parameter, with `gradients` by parameter, and what state it lacks. All memory of a
  /// step is taken here, so that one that failed can be taken again.
  virtual void prepare(const std::vector<Tensor>& gradients) = 0;
  /// Counts the step, on the host alone, and sets its step params.
  void advance(bool is_scaled);
  /// Updates the parameters by their slots.
  virtual void launch() = 0;
  /// Counts the writes.
  void note_writes();

  /// Sets the step params of each slot, by its group() and steps().
  virtual void set_step_params() = 0;
  /// What they are: what a kernel finds at replay_params().
  virtual std::span<const std::byte> step_params() const = 0;
  void count_step(bool is_scaled);
  void record_advance(bool is_scaled);
  std::vector<Tensor> gradients() const;
  void make_skip_counts(bool is_scaled);
  void read_skip_counts(bool surely = false);
  struct Loaded;
  void read_parameter(const StateDict& state, std::size_t i, Loaded& loaded, StateDict& expected);
  Loaded read_state(const StateDict& state);

  std::vector<ParamGroup> groups_;
  ParamGroup defaults_;  // of no parameters
  std::vector<Tensor> parameters_;
  std::vector<std::size_t> group_of_;  // by parameter
  std::vector<std::int64_t> given_;    // by parameter, how many of its steps the device was given
  std::vector<std::size_t> moved_;
  Tensor skips_;                           // by parameter, how many of those it skipped
  std::vector<std::int64_t> known_skips_;  // ... as last read
  bool is_scaled_ = false;                 // the last step was a gradient scaler's: there may be skips to read
  std::uint64_t faults_seen_ = 0, zeroed_ = 0;
  memory::NameId name_;
  const void* replay_params_ = nullptr;
  const float* found_inf_ = nullptr;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // captured steps and scalers look for it
};

}  // namespace bytetape::optim
