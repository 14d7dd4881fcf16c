#include "bytetape/autograd/op_observer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "bytetape/autograd/op_scope.h"
#include "bytetape/autograd/record.h"

namespace bytetape {

using detail::autograd_ambient;

namespace {

/// Disables the thread's observers while it lives, because observers must not observe each other's ops.
struct Unobserved {
  OpObserver* innermost = std::exchange(autograd_ambient.op_observer, nullptr);
  ~Unobserved() { autograd_ambient.op_observer = innermost; }
};

/// Calls f(observer) on all observers of the thread, the innermost first.
template <class F>
void tell(const F& f) {
  const Unobserved hidden;
  for (OpObserver* o = hidden.innermost; o; o = o->outer()) f(*o);
}

}  // namespace

const char* to_string(AutocastClass c) {
  constexpr const char* text[] = {"keep", "low", "f32", "widest"};
  return text[static_cast<int>(c)];
}
const char* to_string(OpKind k) {
  constexpr const char* text[] = {"kernel", "view", "composite"};
  return text[static_cast<int>(k)];
}

OpObserver::OpObserver() : outer_(std::exchange(autograd_ambient.op_observer, this)) {}
OpObserver::~OpObserver() {
  OpObserver** at = &autograd_ambient.op_observer;
  while (*at && *at != this) at = &(*at)->outer_;
  if (*at) *at = outer_;
}

namespace detail {

ObservedOp::ObservedOp(const OpDefinition& op)
    : OpCall(op, autograd_ambient.op_call),
      outer_(std::exchange(autograd_ambient.op_call, this)),
      exceptions_(std::uncaught_exceptions()) {}

void ObservedOp::begin() {
  tell([&](OpObserver& o) {
    told_.push_back(&o);
    o.begin(*this);
  });
}

void ObservedOp::set_results(const std::vector<Tensor>& results) {
  const std::vector<Tensor> told = std::exchange(outputs, results);
  const auto is_told = [&](const Tensor& y) {
    return std::any_of(told.begin(), told.end(), [&](const Tensor& t) { return t.is_same(y); });
  };
  for (const Tensor& y : results)
    if (!is_told(y)) tell([&](OpObserver& o) { o.result(*this, y); });
}

ObservedOp::~ObservedOp() {
  autograd_ambient.op_call = outer_;
  failed = std::uncaught_exceptions() > exceptions_;
  if (!failed && outputs.empty() && !inputs.empty()) outputs.push_back(inputs[0].tensor());
  tell([&](OpObserver& o) {
    if (std::find(told_.begin(), told_.end(), &o) != told_.end()) o.end(*this);
  });
}

// Reports the result of a node that is recorded outside any op, under an empty name.
void observe_result(const Tensor& y) {
  static constexpr OpDefinition unnamed{.name = ""};
  OpCall outside(unnamed, nullptr);
  OpCall& call = autograd_ambient.op_call ? *autograd_ambient.op_call : outside;
  call.outputs.push_back(y);
  tell([&](OpObserver& o) { o.result(call, y); });
}

}  // namespace detail
}  // namespace bytetape
