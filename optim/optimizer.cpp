#include "bytetape/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/node.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/shadow.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::optim {
namespace {

/// Returns the stream that may still write the leaf's gradient, if any.
std::optional<Stream> late_on(const Tensor& leaf) {
  const GradSink* const sink = autograd_meta(leaf).sink;
  return sink ? sink->late_on(leaf) : std::nullopt;
}

}  // namespace

Optimizer::Optimizer(std::vector<ParamGroup> groups, const ParamGroup& defaults, std::string_view name)
    : groups_(std::move(groups)), defaults_(defaults), name_(memory::intern(name)) {
  const memory::OpScope op(name_);
  if (!defaults_.lr) defaults_.lr = 0;
  for (ParamGroup& g : groups_) {
    check_has_no_more(g, defaults_);
    complete(g, defaults_);
    parameters_.insert(parameters_.end(), g.params.begin(), g.params.end());
    group_of_.resize(parameters_.size(), static_cast<std::size_t>(&g - groups_.data()));
  }
  check<ValueError>(!parameters_.empty(), "expected at least one parameter, got none");
  check_parameters(parameters_);
  given_.resize(parameters_.size());
  known_skips_.resize(parameters_.size());
}

Optimizer::Optimizer(std::vector<Tensor> parameters, std::string_view name)
    : Optimizer({{.params = std::move(parameters)}}, {}, name) {}

void Optimizer::add_param_group(ParamGroup group) {
  const memory::OpScope op(name_);
  detail::refuse_in_capture("adds a parameter group");
  check_has_no_more(group, defaults_);
  complete(group, defaults_);
  check_group(group);
  std::vector<Tensor> all = parameters_;
  all.insert(all.end(), group.params.begin(), group.params.end());
  check_parameters(all);
  drop_skip_counts();
  resize_states(all.size());
  group_of_.resize(all.size(), groups_.size());
  given_.resize(all.size());
  known_skips_.resize(all.size());
  groups_.push_back(std::move(group));
  parameters_ = std::move(all);
}

void Optimizer::resize_states(std::size_t) {
  fail<NotImplemented>("this optimizer does not override resize_states(), which add_param_group() needs");
}

std::span<ParamGroup> Optimizer::param_groups() {
  for (ParamGroup& g : groups_) complete(g, defaults_);
  return groups_;
}

void Optimizer::check_groups() {
  const memory::OpScope op(name_);
  for (const ParamGroup& g : param_groups()) {
    check_has_no_more(g, defaults_);
    check_group(g);
  }
}
void Optimizer::check_group(const ParamGroup& g) const {
  check_not_negative("lr", *g.lr);
  if (g.initial_lr) check_not_negative("initial_lr", *g.initial_lr);
  check_options(g);
}

void Optimizer::zero_grad() {
  ++zeroed_;
  for (Tensor& p : parameters_) p.set_grad({});
}

void Optimizer::set_lr(double lr) {
  const memory::OpScope op(name_);
  check_not_negative("lr", lr);
  for (ParamGroup& g : groups_) g.lr = lr;
}

void Optimizer::take_step(const float* found_inf, const std::function<void()>& unscale) {
  const memory::PhaseScope phase(memory::Phase::optimizer);
  const memory::OpScope op(name_);
  const NoGrad no_grad;
  check_groups();
  const bool is_scaled = found_inf != nullptr;
  found_inf_ = found_inf;
  const std::vector<Tensor> gradients = this->gradients();
  for (GradSink* const sink : sinks_of_parts(parameters_)) sink->before_update();
  moved_.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && gradients[i].numel() > 0) moved_.push_back(i);
  put_late_last();
  make_skip_counts(is_scaled);
  prepare(gradients);
  unscale();
  for (const std::size_t i : moved_)
    if (const Tensor g = parameters_[i].grad(); !g.is_same(gradients[i]))
      run<&CopyKernels::copy>(g.device(), g.read(), gradients[i].write());
  detail::core_ambient.capture ? record_advance(is_scaled) : advance(is_scaled);
  launch();
  note_writes();
}

/// Returns for each parameter its gradient, or uninitialised memory in the parameter's layout if the gradient has
/// another layout. Undefined if there is no gradient.
std::vector<Tensor> Optimizer::gradients() const {
  std::vector<Tensor> all;
  all.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    check_in_place(p, i);
    check_not_divided(p, i);
    const Tensor g = p.grad();
    if (g.defined()) check_gradient(g, p, i);
    all.push_back(!g.defined() || same_layout(g.shape(), g.strides(), p.strides()) ? g : empty_like(p));
  }
  return all;
}

/// Moves the parameters whose gradients other streams still write to the end, so that the others are updated meanwhile.
void Optimizer::put_late_last() {
  late_ = {};
  const auto late =
      std::stable_partition(moved_.begin(), moved_.end(), [&](std::size_t i) { return !late_on(parameters_[i]); });
  if (late == moved_.end()) return;
  late_.first = static_cast<std::size_t>(late - moved_.begin());
  late_.wait = [this] {
    for (std::size_t at = late_.first; at < moved_.size(); ++at) parameters_[moved_[at]].grad().read();
  };
}

OptimizerSlot Optimizer::slot(std::size_t i, const Tensor& g) const {
  std::int64_t* skips = skips_.defined() ? skips_.write().as<std::int64_t>() + i : nullptr;
  const Tensor shadow = current_shadow(parameters_[i]);
  const auto read = [&] {  // a late gradient on the stream that writes it, so that the thread's does not wait yet
    const std::optional<Stream> writer = late_on(parameters_[i]);
    const StreamScope there(writer.value_or(current_stream()));
    return g.read();
  };
  return {.parameter = parameters_[i].write(),
          .gradient = read(),
          .shadow = shadow.defined() ? shadow.write() : View(),
          .skipped = skips};
}

void Optimizer::advance(bool is_scaled) {
  if (!is_scaled) read_skip_counts();
  count_step(is_scaled);
}

void Optimizer::count_step(bool is_scaled) {
  is_scaled_ = is_scaled;
  for (const std::size_t i : moved_) ++given_[i];
  set_step_params();
}

void Optimizer::record_advance(bool is_scaled) {
  detail::Capture& capture = *detail::core_ambient.capture;
  capture.on_end([this, given = given_, was_scaled = is_scaled_] {
    given_ = given;
    is_scaled_ = was_scaled;
    replay_params_ = nullptr;
  });
  count_step(is_scaled);
  std::vector<const Storage*> places;  // unique, because the capture holds them
  for (const std::size_t i : moved_) places.push_back(&parameters_[i].storage());
  const auto check_all = [this, is_scaled, alive = std::weak_ptr(alive_), moved = moved_, places,
                          known = parameters_.size(), check_options = replay_check()] {
    check<CaptureError>(!alive.expired(), "the optimizer of a captured step was destroyed");
    check<CaptureError>(parameters_.size() == known,
                        "parameters were added to the optimizer since the step was captured: capture it again");
    for (std::size_t k = 0; k < moved.size(); ++k) {
      const Tensor& p = parameters_[moved[k]];
      check<CaptureError>(!p.impl()->replaced && &p.storage() == places[k], "parameter ", moved[k], ", ", describe(p),
                          ", was replaced or moved since the step was captured: capture it again");
    }
    check_groups();
    check_options();
    if (!is_scaled) read_skip_counts();  // before the step is counted, because it may throw a fault
  };
  const auto replayed = [this, is_scaled, moved = moved_](void* out) {
    moved_ = moved;
    advance(is_scaled);
    std::ranges::copy(step_params(), static_cast<std::byte*>(out));  // perhaps none, and no memory for them
  };
  replay_params_ = capture.replay_params().add(step_params().size(), replayed, check_all);
}

void Optimizer::note_writes() {
  for (const std::size_t i : moved_) note_write_with_shadow(parameters_[i]);
  const std::vector<GradSink*> sinks = sinks_of_parts(parameters_);
  if (sinks.empty()) return;
  std::vector<Tensor> updated;  // also empty parts, so that all processes pass the same parameters
  for (const Tensor& p : parameters_)
    if (p.grad().defined()) updated.push_back(p);
  for (GradSink* const sink : sinks) sink->updated(updated);
}

// The device may skip a step that was launched: after a kernel's fault, or under a gradient scaler. It counts these
// steps.
void Optimizer::make_skip_counts(bool is_scaled) {
  const Device device = parameters_[0].device();
  const auto faults_thrown = backend(device).faults_thrown;
  if ((!faults_thrown && !is_scaled) || (skips_.defined() && skips_.device() == device)) return;
  detail::refuse_in_capture("takes an optimizer's first step");
  read_skip_counts();  // of the device that the parameters were on before
  skips_ = zeros(parameters_.size(), DType::i64, device, memory::Role::optimizer_state);
  forget_skips();
  if (faults_thrown && !device.is_meta) faults_seen_ = faults_thrown(device.index);
}

/// Frees the device's counts of skipped steps, and counts these steps as not taken.
void Optimizer::drop_skip_counts() {
  read_skip_counts(true);
  forget_skips();
  skips_ = {};
}

void Optimizer::forget_skips() {
  for (std::size_t i = 0; i < given_.size(); ++i) given_[i] -= std::exchange(known_skips_[i], 0);
}

/// Reads the counts of skipped steps if they may have changed: after a fault or steps under a gradient scaler. With
/// `surely` reads them always, because a fault may be pending.
void Optimizer::read_skip_counts(bool surely) {
  if (!skips_.defined() || skips_.device().is_meta) return;
  const auto faults_thrown = backend(skips_.device()).faults_thrown;
  const std::uint64_t thrown = faults_thrown ? faults_thrown(skips_.device().index) : 0;
  if (thrown == faults_seen_ && !is_scaled_ && !surely) return;
  known_skips_ = skips_.to_vector<std::int64_t>();  // waits for all steps, and throws a new fault
  is_scaled_ = false;
  faults_seen_ = thrown;
}

void Optimizer::check_not_negative(const char* name, double value) {
  check<ValueError>(!(value < 0), name, " must not be negative, got ", value);
  check<ValueError>(std::isfinite(value), name, " must be finite, got ", value);
}

}  // namespace bytetape::optim
