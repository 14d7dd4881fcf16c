#pragma once
#include <span>
#include <string>
#include <string_view>

#include "bytetape/onnx/conversion.h"

namespace bytetape::onnx {

/// How an op becomes ONNX nodes. An op in place, such as relu_, has the converter of relu unless it has its own.
struct Converter {
  std::string_view op;
  void (*convert)(Conversion& c);
};
using Converters = std::span<const Converter>;

/// \name The converters of each group of ops
/// @{
Converters arithmetic_converters();
Converters attention_converters();
Converters compare_converters();
Converters copy_converters();
Converters images_converters();
Converters indexing_converters();
Converters matmul_converters();
Converters norm_converters();
Converters pointwise_converters();
Converters recurrent_converters();
Converters reduce_converters();
Converters sort_converters();
Converters view_converters();
/// @}

/// Converts a step that puts a view's new elements, input 1, into its base, input 0. `view` is the op that made the
/// view.
void put_into_base(Conversion& c, std::string_view view);
/// Returns the converter of an op, or null.
const Converter* find_converter(std::string_view op);
inline bool is_exported(std::string_view op) { return find_converter(op) != nullptr; }
/// Returns why an op without a converter cannot be exported.
std::string reason_against(std::string_view op);
/// Returns whether an op is listed among those that are never exported.
bool is_refused(std::string_view op);

}  // namespace bytetape::onnx
