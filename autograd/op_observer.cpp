#include "bytetape/autograd/op_observer.h"

#include <exception>
#include <utility>

#include "bytetape/autograd/op_scope.h"
#include "bytetape/autograd/record.h"

namespace bytetape {

using detail::autograd_ambient;

namespace {

/// Calls f(observer) on all observers of the thread, the innermost first. They do not observe each other.
template <class F>
void tell(const F& f) {
  struct Restore {
    OpObserver* innermost = std::exchange(autograd_ambient.op_observer, nullptr);
    ~Restore() { autograd_ambient.op_observer = innermost; }
  } const restore;
  for (OpObserver* o = restore.innermost; o; o = o->outer()) f(*o);
}

double bytes_of(const Tensor& x) {
  return x.defined() ? static_cast<double>(x.numel()) * static_cast<double>(size_of(x.dtype())) : 0;
}

}  // namespace

double one_per_output(const OpCall& call) {
  double n = 0;
  for (const Tensor& y : call.outputs) n += static_cast<double>(y.numel());
  return n;
}
double one_per_input(const OpCall& call) {
  const Tensor& x = call.inputs.at(0).tensor();
  return x.defined() ? static_cast<double>(x.numel()) : 0;
}
double norm_flop(const OpCall& call) { return 8 * one_per_input(call); }
double no_flop(const OpCall&) { return 0; }

const char* to_string(AutocastClass c) {
  constexpr const char* text[] = {"keep", "low", "f32", "widest"};
  return text[static_cast<int>(c)];
}
const char* to_string(OpKind k) {
  constexpr const char* text[] = {"kernel", "view", "composite"};
  return text[static_cast<int>(k)];
}

double OpCall::flop() const { return kind == OpKind::kernel ? definition.flop(*this) : 0; }
double OpCall::bytes() const {
  double n = 0;
  if (kind != OpKind::kernel) return n;
  for (const Operand& x : inputs) n += bytes_of(x.tensor());
  for (const Tensor& y : outputs) n += bytes_of(y);
  return n;
}

OpObserver::OpObserver() : outer_(std::exchange(autograd_ambient.op_observer, this)) {}
OpObserver::~OpObserver() { autograd_ambient.op_observer = outer_; }

namespace detail {

ObservedOp::ObservedOp(const OpDefinition& op)
    : OpCall(op, autograd_ambient.op_call),
      outer_(std::exchange(autograd_ambient.op_call, this)),
      exceptions_(std::uncaught_exceptions()) {}

void ObservedOp::begin() {
  has_begun_ = true;
  tell([&](OpObserver& o) { o.begin(*this); });
}

void ObservedOp::set_results(std::vector<Tensor> results) {
  outputs.clear();
  for (Tensor& y : results) {
    outputs.push_back(std::move(y));
    tell([&](OpObserver& o) { o.result(*this, outputs.back()); });
  }
}

ObservedOp::~ObservedOp() {
  autograd_ambient.op_call = outer_;
  failed = std::uncaught_exceptions() > exceptions_;
  if (!failed && outputs.empty() && !inputs.empty()) outputs.push_back(inputs[0].tensor());
  if (has_begun_) tell([&](OpObserver& o) { o.end(*this); });
}

// A node that is recorded outside any op is told under an empty name.
void observe_result(const Tensor& y) {
  static constexpr OpDefinition unnamed{.name = ""};
  OpCall outside(unnamed, nullptr);
  OpCall& call = autograd_ambient.op_call ? *autograd_ambient.op_call : outside;
  call.outputs.push_back(y);
  tell([&](OpObserver& o) { o.result(call, y); });
}

}  // namespace detail
}  // namespace bytetape
