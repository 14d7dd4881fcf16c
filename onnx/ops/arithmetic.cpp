#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

template <const char* op_type>
void same(Conversion& c) {
  c.set_out(c.graph.add(op_type, {c.in(0), c.in(1)}));
}
constexpr char add_type[] = "Add", sub_type[] = "Sub", mul_type[] = "Mul", div_type[] = "Div", pow_type[] = "Pow",
               max_type[] = "Max", min_type[] = "Min";

constexpr Converter converters[] = {
    {"add", same<add_type>}, {"div", same<div_type>}, {"maximum", same<max_type>}, {"minimum", same<min_type>},
    {"mul", same<mul_type>}, {"pow", same<pow_type>}, {"sub", same<sub_type>},
};

}  // namespace

Converters arithmetic_converters() { return converters; }

}  // namespace bytetape::onnx
