#pragma once
/// \file
/// An ONNX graph in memory, and its construction.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bytetape/core/named_tensors.h"

namespace bytetape::onnx {

/// A size in the two traces. Both are the same unless the size depends on the batch size.
struct Size {
  std::int64_t first = 0, second = 0;

  Size(std::int64_t fixed) : first(fixed), second(fixed) {}
  Size(std::int64_t first, std::int64_t second) : first(first), second(second) {}
  bool is_fixed() const { return first == second; }
  friend Size operator+(Size a, Size b) { return {a.first + b.first, a.second + b.second}; }
  friend Size operator*(Size a, Size b) { return {a.first * b.first, a.second * b.second}; }
  friend bool operator==(const Size&, const Size&) = default;
};
using Sizes = std::vector<Size>;
bool are_fixed(const Sizes& sizes);

/// Thrown by the conversion of an op that cannot be exported.
struct Refusal {
  std::string reason;
};

using Attribute = std::variant<std::int64_t, double, std::vector<std::int64_t>, std::string>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;
using Names = std::vector<std::string>;

/// A node of the graph. An empty input name means that an optional input is absent.
struct Node {
  std::string op_type, name;
  Names inputs, outputs;
  Attributes attributes;
  friend bool operator==(const Node&, const Node&) = default;
};
/// The description of an input or a result of the graph. A size that depends on the batch size has a name.
struct Description {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::variant<std::int64_t, std::string>> sizes;
  friend bool operator==(const Description&, const Description&) = default;
};

/// A graph, to which nodes are added. Constants that occur several times are stored once.
class Graph {
 public:
  /// `batch` is the batch size in the two traces. It is dim `batch_dim` of `input`.
  Graph(Size batch, std::string input, std::int64_t batch_dim)
      : batch_(batch), input_(std::move(input)), batch_dim_(batch_dim) {}

  /// Sets the prefix of the names of the following nodes and values, such as "fc1/linear".
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  /// Adds a node, and returns the name of its only result.
  std::string add(const char* op_type, Names inputs, Attributes attributes = {});
  /// Adds a node with `results` results, and returns their names.
  Names add_several(const char* op_type, Names inputs, Attributes attributes, std::size_t results);

  /// Return the name of a constant.
  std::string tensor(const Tensor& x);
  std::string number(Scalar value, DType dtype);
  std::string integers(const std::vector<std::int64_t>& values);
  /// Adds a constant under its name, if it was not added yet. Returns the name.
  std::string named(const std::string& name, const Tensor& x);
  /// Returns the name of an i64 tensor that holds the sizes.
  /// Throws Refusal if one of them is not a multiple of the batch size.
  std::string sizes(const Sizes& sizes);
  /// Returns how often the batch size is in a size that depends on it; 0 if that is no whole number.
  std::int64_t multiple_of_batch(Size size) const;

  /// Returns the name of the first node or result that `other` does not have; empty if both graphs are equal.
  std::string difference(const Graph& other) const;

  std::vector<Node> nodes;
  NamedTensors initializers;
  std::vector<Description> inputs, outputs;

 private:
  std::string fresh();
  std::string batch_times(std::int64_t factor);

  Size batch_;
  std::string input_;
  std::int64_t batch_dim_;
  std::string prefix_;
  std::size_t count_ = 0;
  std::map<std::string, std::string> constants_;     // by dtype, shape and bytes
  std::map<std::int64_t, std::string> batch_times_;  // by factor
};

}  // namespace bytetape::onnx
