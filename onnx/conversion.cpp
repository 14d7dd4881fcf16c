#include "bytetape/onnx/conversion.h"

#include <algorithm>

#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/factories.h"

namespace bytetape::onnx {
namespace {

Sizes sizes_of(const Shape& first, const Shape& second) {
  Sizes sizes;
  for (int i = 0; i < first.size(); ++i) sizes.emplace_back(first[i], second[i]);
  return sizes;
}

bool are_equal(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  const Tensor same = is_floating(a.dtype()) ? logical_or(a == b, logical_and(isnan(a), isnan(b))) : a == b;
  return all(same).item<bool>();
}

/// Returns x with size 1 in each dim that depends on the batch size and along which all slices are equal.
Tensor without_repeats(Tensor x, const Sizes& sizes) {
  for (int d = 0; d < x.rank(); ++d) {
    if (sizes[static_cast<std::size_t>(d)].is_fixed() || x.size(d) == 0) continue;
    const Tensor one = narrow(x, d, 0, 1);
    if (are_equal(expand(one, x.shape()), x)) x = one;
  }
  return x;
}

}  // namespace

std::int64_t onnx_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1;
    case DType::u8:
      return 2;
    case DType::i32:
      return 6;
    case DType::i64:
      return 7;
    case DType::boolean:
      return 9;
    case DType::f16:
      return 10;
    case DType::f64:
      return 11;
    default:
      return 16;  // bf16
  }
}

ValueNames::ValueNames(Graph& graph, const Trace& first, const Trace& second)
    : graph_(graph), first_(first), second_(second), names_(first.values.size()) {
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (first.values[i].kind == TracedValue::Kind::input) names_[i] = first.values[i].name;
}

Sizes ValueNames::sizes(int value) const {
  const auto i = static_cast<std::size_t>(value);
  return sizes_of(first_.values[i].shape, second_.values[i].shape);
}

const std::string& ValueNames::name(int value) {
  const auto i = static_cast<std::size_t>(value);
  if (names_[i].empty() && first_.values[i].kind == TracedValue::Kind::constant)
    names_[i] = constant(first_.values[i], second_.values[i]);
  if (names_[i].empty()) throw Refusal{};  // the op that computes it was refused
  return names_[i];
}

std::string ValueNames::constant(const TracedValue& first, const TracedValue& second) {
  if (!first.name.empty()) return graph_.named(first.name, first.constant);
  if (are_equal(first.constant, second.constant)) return graph_.tensor(first.constant);
  const Sizes sizes = sizes_of(first.shape, second.shape);
  const Tensor a = without_repeats(first.constant, sizes), b = without_repeats(second.constant, sizes);
  if (!are_equal(a, b))
    throw Refusal{
        detail::concat("it uses a constant, ", describe(first.constant),
                       " in the example, whose elements depend on the batch size, or differ between two runs")};
  return graph_.add("Expand", {graph_.tensor(a), graph_.sizes(sizes)});
}

DType Conversion::number_dtype() const {
  if (out_dtype() != DType::boolean) return out_dtype();
  for (const Argument& x : first_.inputs)
    if (x.value >= 0) return values_.dtype(x.value);
  return out_dtype();
}

std::string Conversion::in(std::size_t i) {
  const Argument &x = first_.inputs[i], &y = second_.inputs[i];
  if (!has(i)) return "";
  if (!x.is_number) return values_.name(x.value);
  if (x.number.to<double>() != y.number.to<double>())
    refuse(detail::concat("a number depends on the batch size: it is ", x.number, " and ", y.number));
  return graph.number(x.number, number_dtype());
}

std::string Conversion::in_or_full(std::size_t i, const Shape& shape, double value, DType dtype) {
  return has(i) ? in(i) : graph.tensor(full(shape, value, dtype, Device::cpu()));
}

std::int64_t Conversion::size(std::size_t i, std::int64_t dim) const {
  const Size size = shape(i).at(static_cast<std::size_t>(dim));
  if (!size.is_fixed()) refuse(detail::concat("dim ", dim, " of input ", i, " depends on the batch size"));
  return size.first;
}

std::size_t Conversion::attribute(std::string_view name) const {
  const auto& list = first_.definition->attributes;
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& a) { return a.name == name; });
  return static_cast<std::size_t>(found - list.begin());
}

bool Conversion::has_attribute(std::string_view name) const {
  return attribute(name) < first_.definition->attributes.size();
}

template <class T>
const T& Conversion::fixed(std::string_view name) const {
  const std::size_t i = attribute(name);
  if (first_.attributes[i] != second_.attributes[i]) refuse("'" + std::string(name) + "' depends on the batch size");
  return std::get<T>(first_.attributes[i]);
}

bool Conversion::flag(std::string_view name) const { return fixed<bool>(name); }
double Conversion::number(std::string_view name) const { return fixed<double>(name); }
std::int64_t Conversion::integer(std::string_view name) const { return fixed<std::int64_t>(name); }
std::vector<std::int64_t> Conversion::integers(std::string_view name) const {
  return fixed<std::vector<std::int64_t>>(name);
}
std::string Conversion::text(std::string_view name) const { return fixed<std::string>(name); }

Size Conversion::size(std::string_view name) const {
  const std::size_t i = attribute(name);
  return {std::get<std::int64_t>(first_.attributes[i]), std::get<std::int64_t>(second_.attributes[i])};
}

std::int64_t Conversion::dim(std::string_view name, std::int64_t rank) const {
  const std::int64_t d = integer(name);
  return d < 0 ? d + std::max<std::int64_t>(rank, 1) : d;
}

std::string Conversion::cast(const std::string& x, DType to) { return graph.add("Cast", {x}, {{"to", onnx_type(to)}}); }

// onnxruntime casts NaN to false.
std::string Conversion::is_nonzero(const std::string& x, DType dtype) {
  if (dtype == DType::boolean) return x;
  if (!is_floating(dtype)) return cast(x, DType::boolean);
  return graph.add("Not", {graph.add("Equal", {x, graph.number(0, dtype)})});
}

std::string Conversion::reshape(const std::string& x, const Sizes& sizes) {
  const auto is_open = [](const Size& s) { return !s.is_fixed(); };
  const auto has_none = [](const Size& s) { return s.first == 0; };
  const bool can_infer = std::none_of(sizes.begin(), sizes.end(), has_none);
  Sizes inferred = sizes;
  if (can_infer && std::count_if(sizes.begin(), sizes.end(), is_open) == 1)
    *std::find_if(inferred.begin(), inferred.end(), is_open) = -1;
  return graph.add("Reshape", {x, graph.sizes(inferred)},
                   can_infer ? Attributes{} : Attributes{{"allowzero", std::int64_t{1}}});
}

}  // namespace bytetape::onnx
