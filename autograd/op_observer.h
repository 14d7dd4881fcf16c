#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bytetape/autograd/op_definition.h"
#include "bytetape/autograd/operand.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The value of an attribute. Its type is that of the op's definition.
using AttributeValue = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::string>;

/// A running op, as observers see it. Valid until the op ends.
class OpCall {
 public:
  OpCall(const OpDefinition& op, const OpCall* by) : definition(op), caller(by), kind(op.kind) {}

  const OpDefinition& definition;
  const OpCall* const caller;              ///< the op that called this op; null if the program did
  OpKind kind;                             ///< the definition's, or `composite` if this call runs other ops instead
  std::vector<Operand> inputs;             ///< tensors and numbers, in the order of definition.inputs
  std::vector<AttributeValue> attributes;  ///< in the order of definition.attributes
  std::vector<Tensor> outputs;             ///< complete when end() is called
  bool failed = false;                     ///< whether it ended with an exception
};

/// Observes the ops of its thread while it lives. These are forward ops, ops of backward rules, and the ops that a
/// composite op calls, which have a `caller`. `memory::ambient.scope.phase` tells forward and backward apart. Observers
/// nest. Each one sees every op, except the ops that observers run themselves. Destroy an observer on the thread that
/// constructed it, and not from within its own functions.
class OpObserver {
 public:
  OpObserver(const OpObserver&) = delete;
  OpObserver& operator=(const OpObserver&) = delete;
  virtual ~OpObserver();

  /// The observer that was active when this one was constructed; null if none.
  OpObserver* outer() const { return outer_; }
  /// Called when an op begins. Its inputs and attributes are known but not yet checked. An exception from here ends the
  /// op.
  virtual void begin(const OpCall&) {}
  /// Called when y was computed. y is an output, or a tensor with the same elements as an output. An exception from
  /// here ends the op.
  virtual void result(const OpCall&, const Tensor& y) { static_cast<void>(y); }
  /// Called when the op ends, also if it ends with an exception. Its outputs are known. If no result was reported, its
  /// output is its first input, which the op returned unchanged.
  virtual void end(const OpCall&) noexcept {}

 protected:
  [[nodiscard]] OpObserver();

 private:
  OpObserver* outer_;
};

}  // namespace bytetape
