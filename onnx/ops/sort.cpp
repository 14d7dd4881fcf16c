#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

/// Returns the first k values of a sorted dim, and their indices. TopK prefers the lowest index among equal values.
Names first_of_sorted(Conversion& c, Size k, bool descending) {
  // TopK does not take u8, bool and bf16.
  const bool is_byte = size_of(c.dtype()) == 1, is_converted = is_byte || c.dtype() == DType::bf16;
  const std::string x = is_converted ? c.cast(c.vector_in(), is_byte ? DType::i32 : DType::f32) : c.vector_in();
  Names found =
      c.graph.add_several("TopK", {x, c.graph.sizes({k})},
                          {{"axis", c.dim("dim", c.rank())}, {"largest", static_cast<std::int64_t>(descending)}}, 2);
  if (is_converted) found[0] = c.cast(found[0], c.dtype());
  return found;
}

Names sorted(Conversion& c) {
  const Size size = c.rank() == 0 ? Size(1) : c.shape()[static_cast<std::size_t>(c.dim("dim", c.rank()))];
  return first_of_sorted(c, size, c.flag("descending"));
}

void set_both(Conversion& c, const Names& values_and_indices) {
  c.set_vector_out(values_and_indices[0], 0);
  c.set_vector_out(values_and_indices[1], 1);
}

void sort(Conversion& c) { set_both(c, sorted(c)); }
void argsort(Conversion& c) { c.set_vector_out(sorted(c)[1]); }
void topk(Conversion& c) { set_both(c, first_of_sorted(c, c.size("k"), c.flag("largest"))); }

constexpr Converter converters[] = {{"argsort", argsort}, {"sort", sort}, {"topk", topk}};

}  // namespace

Converters sort_converters() { return converters; }

}  // namespace bytetape::onnx
