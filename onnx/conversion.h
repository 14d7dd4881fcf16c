#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "bytetape/onnx/graph.h"
#include "bytetape/onnx/trace.h"

namespace bytetape::onnx {

/// The names of values in the graph. Constants are added to it when they are first used.
class ValueNames {
 public:
  ValueNames(Graph& graph, const Trace& first, const Trace& second);
  /// Returns the name of a value.
  /// Throws Refusal if it is a constant whose elements depend on the batch size.
  const std::string& name(int value);
  void set(int value, std::string name) { names_[static_cast<std::size_t>(value)] = std::move(name); }
  Sizes sizes(int value) const;
  DType dtype(int value) const { return first_.values[static_cast<std::size_t>(value)].dtype; }

 private:
  std::string constant(const TracedValue& first, const TracedValue& second);

  Graph& graph_;
  const Trace &first_, &second_;
  std::vector<std::string> names_;
};

/// A traced op that is being converted to ONNX nodes: its inputs by their names in the graph, and its attributes.
/// Attributes that depend on the batch size throw Refusal, except in functions that return Size.
class Conversion {
 public:
  Conversion(Graph& graph, ValueNames& values, const TracedOp& first, const TracedOp& second)
      : graph(graph), values_(values), first_(first), second_(second) {}

  Graph& graph;

  std::size_t inputs() const { return first_.inputs.size(); }
  bool has(std::size_t i) const { return first_.inputs[i].value >= 0 || first_.inputs[i].is_number; }
  bool is_number(std::size_t i) const { return first_.inputs[i].is_number; }
  /// Returns the name of input i; "" if it is undefined. A number becomes a constant of the dtype of the result, or, if
  /// that is bool, of the first tensor.
  std::string in(std::size_t i = 0);
  /// Returns the name of input i, or of a constant of the same shape for each channel if it is undefined.
  std::string in_or_full(std::size_t i, const Shape& shape, double value, DType dtype);
  Sizes shape(std::size_t i = 0) const { return values_.sizes(value(i)); }
  std::int64_t rank(std::size_t i = 0) const { return static_cast<std::int64_t>(shape(i).size()); }
  DType dtype(std::size_t i = 0) const { return values_.dtype(value(i)); }
  /// Returns the size of a dim.
  std::int64_t size(std::size_t i, std::int64_t dim) const;

  bool flag(std::string_view name) const;
  double number(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::string text(std::string_view name) const;
  /// Returns an integer attribute that may depend on the batch size.
  Size size(std::string_view name) const;
  bool has_attribute(std::string_view name) const;
  /// Returns a dim, counted from the first, of a tensor of `rank` dims. A scalar has one.
  std::int64_t dim(std::string_view name, std::int64_t rank) const;

  std::size_t outputs() const { return first_.outputs.size(); }
  Sizes out_shape(std::size_t i = 0) const { return values_.sizes(first_.outputs[i]); }
  DType out_dtype(std::size_t i = 0) const { return values_.dtype(first_.outputs[i]); }
  void set_out(std::string name, std::size_t i = 0) { values_.set(first_.outputs[i], std::move(name)); }

  /// Return the name of the result of further nodes.
  std::string cast(const std::string& x, DType to);
  std::string reshape(const std::string& x, const Sizes& sizes);
  /// Returns a size as a scalar, i64.
  std::string scalar(Size size) { return graph.add("Squeeze", {graph.sizes({size})}); }
  /// Whether each element of x, of the given dtype, is not 0. NaN is not.
  std::string is_nonzero(const std::string& x, DType dtype);
  /// Returns input 0; a scalar as a tensor of one element, for nodes that need a dim.
  std::string vector_in() { return rank() == 0 ? reshape(in(), {1}) : in(); }
  /// Sets a result that was computed from vector_in().
  void set_vector_out(const std::string& y, std::size_t i = 0) {
    set_out(rank() == 0 ? reshape(y, out_shape(i)) : y, i);
  }

  [[noreturn]] static void refuse(std::string reason) { throw Refusal{std::move(reason)}; }

 private:
  int value(std::size_t i) const { return first_.inputs[i].value; }
  DType number_dtype() const;
  std::size_t attribute(std::string_view name) const;
  template <class T>
  const T& fixed(std::string_view name) const;

  ValueNames& values_;
  const TracedOp &first_, &second_;
};

/// Returns the number of the dtype in onnx.proto.
std::int64_t onnx_type(DType dtype);

}  // namespace bytetape::onnx
