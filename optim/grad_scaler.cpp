#include "bytetape/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/check.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/grad_scale.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/optim/gradients.h"
#include "bytetape/optim/parameters.h"

namespace bytetape::optim {
namespace {

using ScalerOp = memory::Op<"grad_scaler">;

constexpr std::size_t most_optimizers = 64;  // elements of found_inf

void check_options(const GradScalerOptions& o) {
  check<ValueError>(GradScaleRule::is_scale(o.init_scale),
                    "init_scale must be positive and a normal number of f32, got ", o.init_scale);
  check<ValueError>(o.growth_factor > 1 && std::isfinite(o.growth_factor),
                    "growth_factor must be above 1 and finite, got ", o.growth_factor);
  check<ValueError>(o.backoff_factor > 0 && o.backoff_factor < 1, "backoff_factor must be above 0 and below 1, got ",
                    o.backoff_factor);
  check<ValueError>(o.growth_interval >= 1, "growth_interval must be at least 1, got ", o.growth_interval);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), start_{static_cast<float>(options.init_scale), 0} {
  const ScalerOp op;
  check_options(options);
}

void GradScaler::make_words(Device device) {
  const ScalerOp op;
  if (scale_.defined())
    return check<DeviceError>(scale_.device() == device, "expected a tensor on ", scale_.device(),
                              ", where the scale is, got one on ", device);
  detail::refuse_in_capture("scales a loss for the first time");
  constexpr auto role = memory::Role::optimizer_state;
  Tensor scale = full({}, start_.scale, DType::f32, device, role);
  Tensor tracker = full({}, start_.growth_tracker, DType::i32, device, role);
  found_inf_ = zeros(most_optimizers, DType::f32, device, role);
  growth_tracker_ = std::move(tracker);
  scale_ = std::move(scale);
}

Tensor GradScaler::scale(const Tensor& outputs) {
  if (!options_.enabled) return outputs;
  {
    const ScalerOp op;
    check_floating(outputs);
    make_words(outputs.device());
  }
  const DType dtype = promoted(outputs.dtype(), DType::f32);
  return to(outputs, dtype) * to(scale_, dtype);
}

/// Returns the state of an optimizer. Adds one if the optimizer is new.
GradScaler::Known& GradScaler::known(const Optimizer& optimizer) {
  check<ValueError>(scale_.defined(), "no loss was scaled yet: run backward from scale(loss) first");
  auto at =
      std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.alive.lock() == optimizer.alive_; });
  if (at == known_.end()) {
    at = std::find_if(known_.begin(), known_.end(),
                      [](const Known& k) { return k.alive.expired() && k.stage == Stage::ready; });
    if (at == known_.end()) {
      check<ValueError>(known_.size() < most_optimizers, "a scaler serves at most ", most_optimizers, " optimizers");
      at = known_.emplace(at);
    }
    *at = {optimizer.alive_};
  }
  if (at->stage == Stage::unscaled && at->zeroed != optimizer.zeroed_) {  // a failed step is repeated
    keep_stages();
    at->stage = Stage::ready;
    run<&CopyKernels::fill>(scale_.device(), Scalar(0), found_inf(*at).write());
  }
  return *at;
}

/// Restores the stages after a capture, and checks before each replay that they are those of the capture's start.
void GradScaler::keep_stages() {
  detail::Capture* const capture = detail::core_ambient.capture;
  if (!capture || recorded_by_ == capture) return;
  recorded_by_ = capture;
  capture->on_end([this, before = known_] {
    for (std::size_t i = 0; i < known_.size(); ++i)
      known_[i] = i < before.size() ? before[i] : Known{.alive = known_[i].alive};
    recorded_by_ = nullptr;
  });
  const auto check_stages = [this, before = known_, alive = std::weak_ptr(alive_)] {
    check<CaptureError>(!alive.expired(), "the gradient scaler of a captured step was destroyed");
    for (std::size_t i = 0; i < before.size(); ++i)
      check<ValueError>(known_[i].stage == before[i].stage,
                        known_[i].stage == Stage::stepped
                            ? "step() was already called for this optimizer since the last update()"
                            : "a captured step must start at the same point between unscale_(), step() and update() as "
                              "when it was captured");
  };
  capture->replay_params().add(
      0, [](void*) {}, check_stages);
}

/// Sets the stage of an optimizer, now and after each replay of the current capture.
void GradScaler::set_stage(Known& known, Stage stage, const Optimizer& optimizer) {
  keep_stages();
  const auto set = [this, i = &known - known_.data(), stage, &optimizer, alive = std::weak_ptr(optimizer.alive_)] {
    if (!alive.expired()) known_[i] = {alive, stage, optimizer.zeroed_};
  };
  set();
  if (detail::core_ambient.capture)
    detail::core_ambient.capture->replay_params().add(
        0, [set](void*) { set(); }, [] {});
}

void GradScaler::set_all_ready() {
  keep_stages();
  const auto set = [this] {
    for (Known& k : known_) k.stage = Stage::ready;
  };
  set();
  if (detail::core_ambient.capture)
    detail::core_ambient.capture->replay_params().add(
        0, [set](void*) { set(); }, [] {});
}

Tensor GradScaler::found_inf(const Known& known) const { return found_inf_.alias({}, {}, &known - known_.data()); }

std::vector<Tensor> GradScaler::scaled_gradients(const Optimizer& optimizer) const {
  std::vector<Tensor> all = gradients_to_write(optimizer.parameters());
  const auto has_gradient = [](const Tensor& p) { return p.grad().defined(); };  // a part may be empty
  check<ValueError>(std::ranges::any_of(optimizer.parameters(), has_gradient),
                    "no parameter of the optimizer has a gradient: run backward first");
  for (const Tensor& p : optimizer.parameters()) {
    const Tensor g = p.grad();
    if (!g.defined()) continue;
    check<DTypeError>(g.dtype() != DType::f16, "a gradient, ", describe(g),
                      ", is f16: use Autocast with f32 parameters, whose gradients are f32");
    check<DeviceError>(g.device() == scale_.device(), "expected a gradient on the scale's device, got ", describe(g),
                       " and a scale on ", scale_.device());
  }
  return all;
}

void GradScaler::unscale(const std::vector<Tensor>& gradients, const Known& known, const Optimizer& optimizer) const {
  const Tensor flag = found_inf(known);
  if (!gradients.empty())
    run<&GradScaleKernels::unscale>(scale_.device(),
                                    UnscaleArgs{written_views(gradients), scale_.read(), flag.write()});
  note_writes(gradients);
  for (GradSink* const sink : sinks_of_parts(optimizer.parameters())) sink->agree_on(flag);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  const ScalerOp op;
  const memory::PhaseScope phase(memory::Phase::optimizer);
  Known& known = this->known(optimizer);
  check<ValueError>(known.stage != Stage::unscaled,
                    "unscale_() was already called for this optimizer since the last update()");
  check<ValueError>(known.stage != Stage::stepped, "unscale_() must be called before step(), got it after step()");
  unscale(scaled_gradients(optimizer), known, optimizer);
  set_stage(known, Stage::unscaled, optimizer);
}

void GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  const ScalerOp op;
  Known& known = this->known(optimizer);
  check<ValueError>(known.stage != Stage::stepped,
                    "step() was already called for this optimizer since the last update()");
  const bool is_scaled = known.stage == Stage::ready;
  std::vector<Tensor> gradients;
  if (is_scaled) gradients = scaled_gradients(optimizer);
  optimizer.take_step(found_inf(known).write().as<float>(), [&] {
    const ScalerOp unscaling;
    if (is_scaled) unscale(gradients, known, optimizer);
  });
  set_stage(known, Stage::stepped, optimizer);
}

void GradScaler::update() {
  if (!options_.enabled) return;
  const ScalerOp op;
  const memory::PhaseScope phase(memory::Phase::optimizer);
  const auto is_ready = [](const Known& k) { return k.stage == Stage::ready; };
  check<ValueError>(!std::all_of(known_.begin(), known_.end(), is_ready),
                    "update() must follow a step() or unscale_(), got none since the last update()");
  const View words = found_inf_.write(),
             used(words.data(), words.dtype, words.device, {static_cast<std::int64_t>(known_.size())}, {1});
  run<&GradScaleKernels::update_scale>(
      scale_.device(), UpdateScaleArgs{scale_.write(),
                                       growth_tracker_.write(),
                                       used,
                                       {options_.growth_factor, options_.backoff_factor, options_.growth_interval}});
  for (const Tensor* x : {&scale_, &growth_tracker_, &found_inf_}) x->storage().bump_version();
  set_all_ready();
}

/// Returns the current scale and growth tracker.
GradScale GradScaler::now() const {
  if (!scale_.defined()) return start_;
  return {scale_.item<float>(), growth_tracker_.item<std::int32_t>()};
}

double GradScaler::get_scale() const { return options_.enabled ? now().scale : 1; }

StateDict GradScaler::state_dict() const {
  const auto [scale, growth_tracker] = now();
  StateDict state;
  state.numbers = {{"scale", scale},
                   {"growth_factor", options_.growth_factor},
                   {"backoff_factor", options_.backoff_factor},
                   {"growth_interval", options_.growth_interval},
                   {"growth_tracker", growth_tracker}};
  return state;
}

void GradScaler::load_state_dict(const StateDict& state) {
  const ScalerOp op;
  check_names(state, state_dict());
  const auto count = [&](const char* name) {
    const std::int64_t n = state.integer(name);
    check<ValueError>(n >= 0, name, " must not be negative, got ", n);
    check<ValueError>(n <= std::numeric_limits<std::int32_t>::max(), name, " must fit an i32, got ", n);
    return static_cast<std::int32_t>(n);
  };
  const GradScalerOptions options{state.number("scale"), state.number("growth_factor"), state.number("backoff_factor"),
                                  count("growth_interval"), options_.enabled};
  check_options(options);
  const GradScale now{static_cast<float>(options.init_scale), count("growth_tracker")};
  options_ = options;
  start_ = now;
  if (!scale_.defined()) return;
  run<&CopyKernels::fill>(scale_.device(), Scalar(start_.scale), scale_.write());
  run<&CopyKernels::fill>(scale_.device(), Scalar(start_.growth_tracker), growth_tracker_.write());
  for (const Tensor* x : {&scale_, &growth_tracker_}) x->storage().bump_version();
}

}  // namespace bytetape::optim
