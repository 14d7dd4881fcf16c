#include <algorithm>

#include "bytetape/core/factories.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

Attributes axis_of(const Conversion& c) { return {{"axis", c.dim("dim", c.rank())}}; }

void index_select(Conversion& c) { c.set_out(c.graph.add("Gather", {c.in(0), c.in(1)}, axis_of(c))); }
void embedding(Conversion& c) { c.set_out(c.graph.add("Gather", {c.in(1), c.in(0)}, {{"axis", std::int64_t{0}}})); }
void gather(Conversion& c) { c.set_out(c.graph.add("GatherElements", {c.in(0), c.in(1)}, axis_of(c))); }

void flat_index(Conversion& c) {
  if (!c.has(0)) return c.set_out(c.in(1));  // Gather, too, counts negative indices from the end
  const std::string size = c.graph.sizes({c.size("size")}), index = c.in(1);
  const std::string is_negative = c.graph.add("Less", {index, c.graph.integers({0})});
  const std::string wrapped = c.graph.add("Where", {is_negative, c.graph.add("Add", {index, size}), index});
  c.set_out(c.graph.add("Add", {c.graph.add("Mul", {c.in(0), size}), wrapped}));
}

void one_hot(Conversion& c) {
  const std::string values = c.graph.integers({0, 1}), depth = c.graph.number(c.integer("num_classes"), DType::i64);
  c.set_vector_out(c.graph.add("OneHot", {c.vector_in(), depth, values}));
}

/// Returns the index (m) of slices as an index of the elements of src.
std::string of_elements(Conversion& c) {
  Sizes sizes(static_cast<std::size_t>(c.rank()), Size(1));
  sizes[static_cast<std::size_t>(c.dim("dim", c.rank()))] = c.shape(1)[0];
  return c.graph.add("Expand", {c.reshape(c.in(1), sizes), c.graph.sizes(c.shape(2))});
}

/// Returns the elements of src, or the number, at the places of the index, which may be smaller.
std::string sources(Conversion& c) {
  if (c.is_number(2)) return c.graph.add("Expand", {c.in(2), c.graph.sizes(c.shape(1))});
  if (c.shape(1) == c.shape(2)) return c.in(2);
  std::vector<std::int64_t> axes(c.shape(1).size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  const std::string starts = c.graph.integers(std::vector<std::int64_t>(axes.size(), 0));
  return c.graph.add("Slice", {c.in(2), starts, c.graph.sizes(c.shape(1)), c.graph.integers(axes)});
}

void scatter_elements(Conversion& c, const std::string& index, const std::string& src, bool adds) {
  Attributes attributes = axis_of(c);
  if (adds) attributes.emplace_back("reduction", "add");
  c.set_out(c.graph.add("ScatterElements", {c.in(0), index, src}, attributes));
}

// onnxruntime expands an index to one element where src has none.
template <bool adds>
void write_slices(Conversion& c) {
  const Sizes src = c.shape(2);
  if (std::any_of(src.begin(), src.end(), [](const Size& s) { return s == Size(0); })) return c.set_out(c.in(0));
  scatter_elements(c, of_elements(c), c.in(2), adds);
}
template <bool adds>
void scatter(Conversion& c) {
  scatter_elements(c, c.in(1), sources(c), adds);
}

constexpr Converter converters[] = {
    {"embedding", embedding},
    {"flat_index", flat_index},
    {"gather", gather},
    {"index_add", write_slices<true>},
    {"index_copy", write_slices<false>},
    {"index_select", index_select},
    {"one_hot", one_hot},
    {"scatter", scatter<false>},
    {"scatter_add", scatter<true>},
};

}  // namespace

Converters indexing_converters() { return converters; }

}  // namespace bytetape::onnx
