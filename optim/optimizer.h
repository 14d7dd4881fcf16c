#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/memory/scope.h"
#include "bytetape/core/tensor.h"

/// Optimizers.
namespace bytetape::optim {

/// Base of what updates parameters by their gradients. Keeps handles to the parameters, which share their data with the
/// module's. Its state is made on a parameter's first step, under the role `optimizer state`, and booked under the
/// module that the parameter belongs to.
class Optimizer {
 public:
  /// `name` is what errors and the ledger call the optimizer ("sgd"). Throws ValueError where the list is empty, names
  /// a tensor twice or has one that is undefined, not a leaf or not dense, DTypeError on integers, and DeviceError
  /// where devices differ.
  Optimizer(std::vector<Tensor> parameters, std::string_view name);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, in place; the others, and their state, stay as they are. Not
  /// recorded. On a device a step does nothing while a fault is pending there (core/fault.h), and once the fault was
  /// thrown it counts as not taken: the first step after one waits for the device. Throws ValueError where an
  /// assignment has put another tensor in a parameter's place in its module.
  void step() {
    take_step(nullptr, [] {});
  }
  /// Drops the gradients (PyTorch's set_to_none).
  void zero_grad();

  double lr() const { return lr_; }
  /// For the steps from now on. Throws ValueError on a negative rate.
  void set_lr(double lr);
  const std::vector<Tensor>& parameters() const { return parameters_; }

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
  /// Of a step that is being captured: memory of the device where a replay finds paces(); else null.
  const void* carried() const { return carried_; }
  /// Of a step under a gradient scaler: memory of the device where 0 says that it is to be taken; else null.
  const float* found_inf() const { return found_inf_; }
  /// An uninitialised tensor of a parameter's shape, dtype, device and layout. Throws CaptureError within a step that
  /// is being captured: it would be a replay's as well.
  static Tensor new_state(const Tensor& parameter);
  /// Throws where a parameter is no longer like the state that was made for it: it was moved, converted or resized.
  static void check_state(const Tensor& state, const Tensor& parameter);

  /// Throws ValueError naming the argument, also on a NaN.
  static void check_not_negative(const char* name, double value);

 private:
  friend class GradScaler;
  /// step(); under a gradient scaler with its word of device memory, and `unscale` for what is left to do to the
  /// gradients, once nothing can fail for want of memory.
  void take_step(const float* found_inf, const std::function<void()>& unscale);
  // Then it is these four in turn; of one that is captured and replayed the host takes the second alone.

  /// Makes a slot for each moved() parameter, with `gradients` by parameter, and what state it lacks. All memory of a
  /// step is taken here, so that one that failed can be taken again.
  virtual void prepare(const std::vector<Tensor>& gradients) = 0;
  /// Counts the step, on the host alone, and sets its paces.
  void advance(bool is_scaled);
  /// Updates the parameters by their slots.
  virtual void launch() = 0;
  /// Counts the writes.
  void note_writes();

  /// Sets the pace of each slot, by lr() and steps().
  virtual void set_paces() = 0;
  /// What they are: what a kernel finds at carried().
  virtual std::span<const std::byte> paces() const = 0;
  void count_step(bool is_scaled);
  void record_advance(bool is_scaled);
  std::vector<Tensor> gradients() const;
  void make_skip_counts(bool is_scaled);
  void read_skip_counts();

  std::vector<Tensor> parameters_;
  std::vector<std::int64_t> given_;  // by parameter, how many of its steps the device was given
  std::vector<std::size_t> moved_;
  Tensor skips_;                           // by parameter, how many of those it skipped
  std::vector<std::int64_t> known_skips_;  // ... as last read
  bool is_scaled_ = false;                 // the last step was a gradient scaler's: there may be skips to read
  std::uint64_t faults_seen_ = 0, zeroed_ = 0;
  memory::NameId name_;
  double lr_ = 0;
  const void* carried_ = nullptr;
  const float* found_inf_ = nullptr;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // captured steps and scalers look for it
};

}  // namespace bytetape::optim
