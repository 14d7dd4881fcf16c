#include "bytetape/optim/optimizer.h"

#include <cmath>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/capture.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/shadow.h"

namespace bytetape::optim {

namespace {

Tensor in_layout_of(const Tensor& parameter, const Tensor& g) {
  if (!g.defined() || same_layout(g.shape(), g.strides(), parameter.strides())) return g;
  Tensor y = empty_like(parameter);
  run<&Kernels::copy>(g.device(), g.read(), y.write());
  return y;
}

}  // namespace

Optimizer::Optimizer(std::vector<Tensor> parameters, std::string_view name)
    : parameters_(std::move(parameters)),
      steps_(parameters_.size()),
      taken_back_(parameters_.size()),
      name_(memory::intern(name)) {
  const memory::OpScope op(name_);
  check<ValueError>(!parameters_.empty(), "an optimizer needs at least one parameter");
  std::unordered_set<const TensorImpl*> seen;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    check<ValueError>(p.defined(), "parameter ", i, " is an undefined tensor");
    check<ValueError>(seen.insert(p.impl()).second, "parameter ", i, ", ", describe(p), ", appears twice");
    check<ValueError>(p.is_leaf(), "parameter ", i, ", ", describe(p), ", is no leaf: an op made it");
    check<DTypeError>(is_floating(p.dtype()), "parameter ", i, " must be floating, got ", describe(p));
    check<ValueError>(is_dense(p.shape(), p.strides()), "parameter ", i, ", ", describe(p), ", has strides ",
                      p.strides(), ", which leave gaps or repeat elements");
    check<DeviceError>(p.device() == parameters_[0].device(), "parameters on different devices: ", describe(p), " and ",
                       describe(parameters_[0]));
  }
}

void Optimizer::zero_grad() {
  for (Tensor& p : parameters_) p.set_grad({});
}

void Optimizer::set_lr(double lr) {
  const memory::OpScope op(name_);
  check_not_negative("lr", lr);
  lr_ = lr;
}

void Optimizer::step() {
  const memory::OpScope op(name_);
  const memory::PhaseScope phase(memory::Phase::optimizer);
  const NoGrad no_grad;
  const std::vector<Tensor> gradients = this->gradients();
  moved_.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && gradients[i].numel() > 0) moved_.push_back(i);
  make_skip_counts();
  prepare(gradients);
  detail::capture_running ? record_advance() : advance();
  launch();
  note_writes();
}

/// By parameter: its gradient, in its memory layout; undefined where there is none.
std::vector<Tensor> Optimizer::gradients() const {
  std::vector<Tensor> all;
  all.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    check<ValueError>(!p.impl()->replaced, "parameter ", i, ", ", describe(p),
                      ", was replaced in its module by an assignment; make a new optimizer of the module's parameters");
    all.push_back(in_layout_of(p, p.grad()));
  }
  return all;
}

OptimizerSlot Optimizer::slot(std::size_t i, const Tensor& g) const {
  std::int64_t* skips = skips_.defined() ? skips_.write().as<std::int64_t>() + i : nullptr;
  const Tensor shadow = current_shadow(parameters_[i]);
  return {.parameter = parameters_[i].write(),
          .gradient = g.read(),
          .shadow = shadow.defined() ? shadow.write() : View(),
          .skipped = skips};
}

void Optimizer::advance() {
  take_back_skipped_steps();
  for (const std::size_t i : moved_) ++steps_[i];
  set_paces();
}

void Optimizer::record_advance() {
  detail::Capture& capture = *detail::capture_running;
  capture.on_end([this, before = steps_] {
    steps_ = before;
    carried_ = nullptr;
  });
  for (const std::size_t i : moved_) ++steps_[i];
  set_paces();
  const auto replayed = [this, alive = std::weak_ptr(alive_), moved = moved_](void* out) {
    check<CaptureError>(!alive.expired(), "the optimizer of a captured step was destroyed");
    moved_ = moved;
    advance();
    std::memcpy(out, paces().data(), paces().size());
  };
  carried_ = capture.carried().add(paces().size(), replayed);
}

void Optimizer::note_writes() {
  for (const std::size_t i : moved_) note_write_with_shadow(parameters_[i]);
}

// Where kernels leave faults, a step that was given to the device may yet be skipped; the device keeps count.
void Optimizer::make_skip_counts() {
  const Device device = parameters_[0].device();
  const auto faults_thrown = backend(device).faults_thrown;
  if (!faults_thrown || (skips_.defined() && skips_.device() == device)) return;
  detail::refuse_in_capture("takes an optimizer's first step");
  skips_ = zeros(parameters_.size(), DType::i64, device, memory::Role::optimizer_state);
  taken_back_.assign(parameters_.size(), 0);
  if (!device.is_meta) faults_seen_ = faults_thrown(device.index);
}

void Optimizer::take_back_skipped_steps() {
  if (!skips_.defined() || skips_.device().is_meta) return;
  const std::uint64_t thrown = backend(skips_.device()).faults_thrown(skips_.device().index);
  if (thrown == faults_seen_) return;
  const auto skipped = skips_.to_vector<std::int64_t>();  // waits for every step so far; throws a fault that came since
  for (std::size_t i = 0; i < steps_.size(); ++i) steps_[i] -= skipped[i] - std::exchange(taken_back_[i], skipped[i]);
  faults_seen_ = thrown;
}

Tensor Optimizer::new_state(const Tensor& p) {
  detail::refuse_in_capture("takes a parameter's first step, which makes its state");
  const memory::ModuleScope module(p.storage().module());
  return empty_strided(p.shape(), p.strides(), p.dtype(), p.device(), memory::Role::optimizer_state);
}

void Optimizer::check_state(const Tensor& state, const Tensor& p) {
  check(state.shape() == p.shape() && same_layout(p.shape(), state.strides(), p.strides()), "the parameter ",
        describe(p), " changed its shape or layout since its state, ", describe(state), ", was made");
  check<DTypeError>(state.dtype() == p.dtype(), "the parameter ", describe(p), " changed its dtype since its state, ",
                    describe(state), ", was made");
  check<DeviceError>(state.device() == p.device(), "the parameter ", describe(p), " was moved since its state, ",
                     describe(state), ", was made; make the optimizer after moving the module");
}

void Optimizer::check_not_negative(const char* name, double value) {
  check<ValueError>(!(value < 0), name, " must not be negative, got ", value);
  check<ValueError>(std::isfinite(value), name, " must be finite, got ", value);
}

}  // namespace bytetape::optim
