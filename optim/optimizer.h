#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "bytetape/autograd/grad_mode.h"
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
  /// recorded. Throws ValueError where an assignment has put another tensor in a parameter's place in its module.
  virtual void step() = 0;
  /// Drops the gradients (PyTorch's set_to_none).
  void zero_grad();

  double lr() const { return lr_; }
  /// For the steps from now on. Throws ValueError on a negative rate.
  void set_lr(double lr);
  const std::vector<Tensor>& parameters() const { return parameters_; }

 protected:
  /// What holds while a step runs.
  struct Step {
    explicit Step(const Optimizer& o) : op(o.name_) {}
    memory::OpScope op;
    NoGrad no_grad;
    memory::PhaseScope phase{memory::Phase::optimizer};
  };
  memory::NameId name() const { return name_; }
  /// By parameter: its gradient, in its memory layout; undefined where there is none. Throws ValueError where an
  /// assignment has put another tensor in the parameter's place in its module.
  std::vector<Tensor> gradients() const;
  /// Counts the step and the write of each parameter that has a gradient. After the kernel, so that a step that failed
  /// to get memory for its state can be taken again.
  void finish_step(const std::vector<Tensor>& gradients);
  /// Steps that parameter i has taken so far.
  std::int64_t steps(std::size_t i) const { return steps_[i]; }
  /// An uninitialised tensor of a parameter's shape, dtype, device and layout.
  static Tensor new_state(const Tensor& parameter);
  /// Throws where a parameter is no longer like the state that was made for it: it was moved, converted or resized.
  static void check_state(const Tensor& state, const Tensor& parameter);

  /// Throws ValueError naming the argument, also on a NaN.
  static void check_not_negative(const char* name, double value);

 private:
  std::vector<Tensor> parameters_;
  std::vector<std::int64_t> steps_;
  memory::NameId name_;
  double lr_ = 0;
};

}  // namespace bytetape::optim
