#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

Attributes keeping(const Conversion& c) { return {{"keepdims", static_cast<std::int64_t>(c.flag("keepdim"))}}; }

/// Returns the reduction of x over the op's dims, all if it names none. A scalar is reduced as one element.
std::string reduced(Conversion& c, const char* op_type, const std::string& x) {
  const std::vector<std::int64_t> dims = c.integers("dims");
  if (c.rank() == 0) return c.graph.add(op_type, {c.reshape(x, {1})}, {{"keepdims", std::int64_t{0}}});
  Attributes attributes = keeping(c);
  if (!dims.empty()) attributes.emplace_back("axes", dims);
  return c.graph.add(op_type, {x}, attributes);
}

/// Returns x in the dtype of the result: sums of integers are i64.
std::string widened(Conversion& c) { return c.dtype() == c.out_dtype() ? c.in() : c.cast(c.in(), c.out_dtype()); }

template <const char* op_type>
void reduce(Conversion& c) {
  c.set_out(reduced(c, op_type, widened(c)));
}

/// Returns a tensor of bools as i32, which have an order in ONNX too, and others as they are.
std::string ordered(Conversion& c, const std::string& x) {
  return c.dtype() == DType::boolean ? c.cast(x, DType::i32) : x;
}
/// Returns the result for ordered(x) in the dtype of x.
std::string as_input(Conversion& c, const std::string& y) {
  return c.dtype() == DType::boolean ? c.cast(y, DType::boolean) : y;
}

template <const char* op_type>
void reduce_ordered(Conversion& c) {
  c.set_out(as_input(c, reduced(c, op_type, ordered(c, c.in()))));
}
constexpr char mean[] = "ReduceMean", prod[] = "ReduceProd", max[] = "ReduceMax", min[] = "ReduceMin",
               norm[] = "ReduceL2", logsumexp[] = "ReduceLogSumExp";

// In opset 17 the dims of ReduceSum are an input, those of other reductions an attribute.
void sum(Conversion& c) {
  const std::vector<std::int64_t> dims = c.integers("dims");
  if (c.rank() == 0) return c.set_out(widened(c));
  Names inputs{widened(c)};
  if (!dims.empty()) inputs.push_back(c.graph.integers(dims));
  c.set_out(c.graph.add("ReduceSum", inputs, keeping(c)));
}

// The maximum of no integers is the lowest, which is not above 0, and the minimum is the highest, which is.
template <const char* op_type>
void quantify(Conversion& c) {
  const std::string truth = c.cast(c.is_nonzero(c.in(), c.dtype()), DType::i32);
  c.set_out(c.graph.add("Greater", {reduced(c, op_type, truth), c.graph.number(0, DType::i32)}));
}

/// Returns the index of the extreme element along a dim.
std::string extreme_index(Conversion& c, const char* op_type) {
  return c.graph.add(op_type, {ordered(c, c.vector_in())},
                     {{"axis", c.dim("dim", c.rank())}, {"keepdims", static_cast<std::int64_t>(c.flag("keepdim"))}});
}

template <const char* op_type>
void index(Conversion& c) {
  if (c.has_attribute("dim")) return c.set_vector_out(extreme_index(c, op_type));
  const std::string all = c.graph.add("Reshape", {ordered(c, c.in()), c.graph.integers({-1})});
  c.set_out(c.graph.add(op_type, {all}, {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{0}}}));
}
constexpr char argmax[] = "ArgMax", argmin[] = "ArgMin";

template <const char* value_type, const char* index_type>
void extreme(Conversion& c) {
  Attributes attributes = keeping(c);
  attributes.emplace_back("axes", std::vector<std::int64_t>{c.dim("dim", c.rank())});
  c.set_vector_out(as_input(c, c.graph.add(value_type, {ordered(c, c.vector_in())}, attributes)), 0);
  c.set_vector_out(extreme_index(c, index_type), 1);
}

void cumsum(Conversion& c) {
  if (c.rank() == 0) return c.set_out(widened(c));
  c.set_out(c.graph.add("CumSum", {widened(c), c.graph.number(c.dim("dim", c.rank()), DType::i64)}));
}

template <const char* op_type>
void softmax(Conversion& c) {
  c.set_vector_out(c.graph.add(op_type, {c.vector_in()}, {{"axis", c.dim("dim", c.rank())}}));
}
constexpr char softmax_type[] = "Softmax", log_softmax_type[] = "LogSoftmax";

constexpr Converter converters[] = {
    {"all", quantify<min>},
    {"any", quantify<max>},
    {"argmax", index<argmax>},
    {"argmin", index<argmin>},
    {"cumsum", cumsum},
    {"log_softmax", softmax<log_softmax_type>},
    {"logsumexp", reduce<logsumexp>},
    {"max", reduce_ordered<max>},
    {"max_with_indices", extreme<max, argmax>},
    {"mean", reduce<mean>},
    {"min", reduce_ordered<min>},
    {"min_with_indices", extreme<min, argmin>},
    {"norm", reduce<norm>},
    {"prod", reduce<prod>},
    {"softmax", softmax<softmax_type>},
    {"sum", sum},
};

}  // namespace

Converters reduce_converters() { return converters; }

}  // namespace bytetape::onnx
