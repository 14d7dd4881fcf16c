#pragma once
/// \file
/// The ops of a run, as a graph of values. A value is the elements of a tensor between two writes, so an op in place
/// has a new value as its result.
#include <string>
#include <vector>

#include "bytetape/autograd/op_observer.h"
#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/onnx/save.h"

namespace bytetape::onnx {

/// An input of a traced op: a value, a number, or nothing.
struct Argument {
  int value = -1;  ///< the index of the value; -1 if there is none
  bool is_number = false;
  Scalar number = 0;
};

/// An op that ran.
struct TracedOp {
  const OpDefinition* definition = nullptr;
  std::vector<AttributeValue> attributes;
  std::vector<Argument> inputs;
  std::vector<int> outputs;  ///< values: the results, then the tensors that it overwrote and did not return
  memory::NameId module = 0;
  /// Whether this step puts input 1 into its place in input 0, of which it is the view that the op makes.
  bool updates_base = false;
  std::string refusal = {};  ///< why it cannot be exported; empty if it can
};

/// A write to a tensor that the run did not compute.
struct Overwritten {
  Tensor tensor;
  std::string description;  ///< of the op
};

/// Returns "'relu_' in 'layer1.0'".
std::string describe_op(const OpDefinition& op, memory::NameId module);

/// The elements of a tensor at a time.
struct TracedValue {
  enum class Kind { result, input, constant };
  Shape shape;
  DType dtype = DType::f32;
  Kind kind = Kind::result;
  Tensor constant = {};   ///< the elements of a constant
  std::string name = {};  ///< the name of an input, parameter or buffer
};

/// The ops of a run, and the values that they use.
struct Trace {
  std::vector<TracedOp> ops;
  std::vector<TracedValue> values;
  std::vector<int> results;
  std::vector<Overwritten> overwritten;
};

/// Runs function(inputs), and returns the ops that it ran. Ops that an exported op calls are left out.
/// `constants` are the parameters and buffers. The trace holds the tensors of the run until it ends.
/// Exceptions of the function pass through.
/// Throws NotImplemented, before the op runs, if an op in place would overwrite a parameter or buffer.
Trace trace(const Function& function, const NamedTensors& inputs, const NamedTensors& constants);

/// Removes the ops whose results nothing needs.
void remove_unused(Trace& first, Trace& second);

}  // namespace bytetape::onnx
