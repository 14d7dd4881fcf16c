#pragma once
#include <concepts>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/op_observer.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/size2.h"

namespace bytetape {

namespace detail {

template <class T>
concept IsInput = std::derived_from<T, Tensor> || std::same_as<T, Operand> || std::same_as<T, std::vector<Tensor>>;

inline AttributeValue attribute_of(bool v) { return v; }
inline AttributeValue attribute_of(std::integral auto v) { return static_cast<std::int64_t>(v); }
inline AttributeValue attribute_of(std::floating_point auto v) { return static_cast<double>(v); }
inline AttributeValue attribute_of(const Scalar& v) { return v.to<double>(); }
inline AttributeValue attribute_of(const Dims& v) { return std::vector<std::int64_t>(v.begin(), v.end()); }
inline AttributeValue attribute_of(const std::vector<std::int64_t>& v) { return v; }
inline AttributeValue attribute_of(Size2 v) { return std::vector<std::int64_t>{v.h, v.w}; }
inline AttributeValue attribute_of(std::string_view v) { return std::string(v); }
inline AttributeValue attribute_of(DType v) { return std::string(to_string(v)); }
inline AttributeValue attribute_of(Device v) { return to_string(v); }
template <class E>
requires std::is_enum_v<E> AttributeValue attribute_of(E v) { return std::string(name_of(v)); }

/// Whether an argument of C++ type T can be an attribute of `type`.
template <class T>
constexpr bool has_type(AttributeType type) {
  if (std::same_as<T, bool>) return type == AttributeType::boolean;
  if (std::integral<T>) return type == AttributeType::integer;
  if (std::floating_point<T> || std::same_as<T, Scalar>) return type == AttributeType::number;
  if (std::is_enum_v<T> || std::same_as<T, Device> || std::same_as<T, std::string_view>)
    return type == AttributeType::text;
  return type == AttributeType::integers;
}

/// Whether arguments of these types match the definition: the number of inputs, and the types of the attributes in
/// order.
template <class... Args>
constexpr bool fits_definition(const OpDefinition& op) {
  std::size_t inputs = 0, attributes = 0;
  bool fits = true;
  [[maybe_unused]] const auto count = [&]<class T>(std::type_identity<T>) {
    if (IsInput<T>) {
      ++inputs;
      return;
    }
    fits = fits && attributes < op.attributes.size() && has_type<T>(op.attributes[attributes].type);
    ++attributes;
  };
  (count(std::type_identity<Args>{}), ...);
  return fits && inputs == op.inputs.size() && attributes == op.attributes.size();
}

/// An op that runs on a thread with an OpObserver.
class ObservedOp final : public OpCall {
 public:
  explicit ObservedOp(const OpDefinition& op);
  ~ObservedOp();
  template <class T>
  void add(const T& argument) {
    if constexpr (std::same_as<T, std::vector<Tensor>>)
      inputs.insert(inputs.end(), argument.begin(), argument.end());
    else if constexpr (IsInput<T>)
      inputs.emplace_back(argument);
    else
      attributes.push_back(attribute_of(argument));
  }
  void begin();
  void set_results(const std::vector<Tensor>& results);

 private:
  ObservedOp* const outer_;
  const int exceptions_;
  std::vector<const OpObserver*> told_;  // the observers whose begin() was called
};

}  // namespace detail

/// The scope of a running op. Construct it in the first line of the op. Pass all inputs, then all attributes, in the
/// order of the definition:
///
///     Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
///       const Op<index_select_op> op(x, index, dim);
///
/// The scope names the op in errors and on the ledger, and notifies observers. record() passes the result to observers.
/// An op that does not call record() returns op.result(y).
template <const OpDefinition& definition>
class Op : memory::OpScope {
 public:
  template <class... Args>
  [[nodiscard]] explicit Op(const Args&... arguments) : OpScope(id()) {
    static_assert(detail::fits_definition<Args...>(definition),
                  "the arguments of Op are not the inputs and attributes of the definition");
    if (detail::autograd_ambient.op_observer) [[unlikely]]
      begin(arguments...);
  }

  /// Returns x converted to the dtype that Autocast requires for the op (f32 or 16 bits), or x itself.
  decltype(auto) input(const Tensor& x) const {
    if constexpr (definition.autocast == AutocastClass::f32)
      return widened(x);
    else if constexpr (definition.autocast == AutocastClass::low)
      return autocast_copy(x);
    else
      return static_cast<const Tensor&>(x);
  }
  /// Reports y to observers as the op's only result, and returns y.
  Tensor result(Tensor y) const {
    if (call_) [[unlikely]]
      call_->set_results({y});
    return y;
  }
  /// Reports several results to observers, and returns them.
  std::vector<Tensor> results(std::vector<Tensor> ys) const {
    if (call_) [[unlikely]]
      call_->set_results(ys);
    return ys;
  }
  /// Does the same as result(), for a call that ran other ops instead of a kernel. Sets the call's kind to `composite`.
  Tensor composed(Tensor y) const {
    if (call_) [[unlikely]]
      call_->kind = OpKind::composite;
    return result(std::move(y));
  }

 private:
  static memory::NameId id() {
    static const memory::NameId interned = memory::intern(definition.name);
    return interned;
  }
  template <class... Args>
  [[gnu::noinline, gnu::cold]] void begin(const Args&... arguments) {
    call_ = std::make_unique<detail::ObservedOp>(definition);
    (call_->add(arguments), ...);
    call_->begin();
  }

  std::unique_ptr<detail::ObservedOp> call_;  // null without an observer
};

/// The definition of the in-place form of an op.
template <const OpDefinition& op>
inline constexpr OpDefinition in_place_of = in_place(op);

}  // namespace bytetape
