#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bytetape/autograd/op_definition.h"
#include "bytetape/autograd/operand.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The value of an attribute, of the type that the op's definition states.
using AttributeValue = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::string>;

/// An op that runs, for observers. Valid while it runs.
class OpCall {
 public:
  OpCall(const OpDefinition& op, const OpCall* by) : definition(op), caller(by), kind(op.kind) {}

  const OpDefinition& definition;
  const OpCall* const caller;   ///< the op that this one is a part of, or null
  OpKind kind;                  ///< that of the definition, or `composite` if this call runs other ops instead
  std::vector<Operand> inputs;  ///< tensors and numbers, in the order of definition.inputs
  std::vector<AttributeValue> attributes;  ///< in the order of definition.attributes
  std::vector<Tensor> outputs;             ///< known when it ends
  bool failed = false;                     ///< whether it ended with an exception

  /// Floating-point operations, from shapes. 0 for views, and for composites, whose parts count.
  double flop() const;
  /// The bytes of all inputs and outputs, each once. 0 for views and composites.
  double bytes() const;
};

/// Observes the ops of its thread, while it lives: forward ops, those of backward rules (the phase of memory::ambient
/// tells them apart), and the ops that a composite op consists of, which have a `caller`. Observers nest, and each sees
/// all. Ops that an observer runs itself are not observed.
class OpObserver {
 public:
  OpObserver(const OpObserver&) = delete;
  OpObserver& operator=(const OpObserver&) = delete;
  virtual ~OpObserver();

  /// The next of the thread's observers.
  OpObserver* outer() const { return outer_; }
  /// The op begins: inputs and attributes are known, and not checked yet. An exception ends the op.
  virtual void begin(const OpCall&) {}
  /// y was computed: an output, or a tensor with an output's elements. An exception ends the op.
  virtual void result(const OpCall&, const Tensor& y) { static_cast<void>(y); }
  /// The op ends, also by an exception, and its outputs are known. An op that returns an input as it is has that as its
  /// output.
  virtual void end(const OpCall&) noexcept {}

 protected:
  [[nodiscard]] OpObserver();

 private:
  OpObserver* const outer_;
};

}  // namespace bytetape
