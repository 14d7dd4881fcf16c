#include "bytetape/optim/ema.h"

#include <algorithm>
#include <utility>

#include "bytetape/core/check.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/overlap.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/optim/parameters.h"

namespace bytetape::optim {
namespace {

using EmaOp = memory::Op<"ema">;

void copy(const Tensor& x, const Tensor& y) {
  copy_across(x, y);
  y.storage().bump_version();
}

void check_shapes(const std::vector<Tensor>& averages, const std::vector<Tensor>& others) {
  check<ValueError>(others.size() == averages.size(), "expected ", averages.size(),
                    " tensors, one for each average, got ", others.size());
  for (std::size_t i = 0; i < others.size(); ++i) {
    check_defined(others[i], "a tensor to use as an average");
    check(others[i].shape() == averages[i].shape(), "tensor ", i, ", ", describe(others[i]),
          ", does not fit the average ", describe(averages[i]));
  }
}

std::string average_path(std::size_t i) { return "averages." + std::to_string(i); }

}  // namespace

EMA::EMA(std::vector<Tensor> parameters, const EMAOptions& options) : parameters_(std::move(parameters)) {
  const EmaOp op;
  check<ValueError>(options.decay >= 0 && options.decay <= 1, "decay must be from 0 to 1, got ", options.decay);
  check<ValueError>(!options.use_buffers, "use_buffers needs the model: EMA(model, {.use_buffers = true})");
  check<ValueError>(!parameters_.empty(), "expected at least one parameter to average, got none");
  check_parameters(parameters_);
  step_params_.assign(parameters_.size(), {1 - options.decay});
  for (const Tensor& p : parameters_) {
    averages_.push_back(new_state(p));
    copy(p, averages_.back());
  }
}

void EMA::check_all() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    check_in_place(parameters_[i], i);
    check_state(averages_[i], parameters_[i]);
  }
}

void EMA::update() {
  const EmaOp op;
  const memory::PhaseScope phase(memory::Phase::optimizer);
  check_all();
  const Device device = parameters_[0].device();
  if (!has_begun_) {
    detail::refuse_in_capture("takes an average's first update");
    synchronize(device);  // throws a fault, whose skipped step must not start the averages
    for (std::size_t i = 0; i < parameters_.size(); ++i) copy(parameters_[i], averages_[i]);
    has_begun_ = true;
    return;
  }
  std::vector<OptimizerSlot> slots;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    slots.push_back({.parameter = averages_[i].write(), .gradient = parameters_[i].read()});
  run<&OptimizerKernels::ema>(device, slots, EmaParams{step_params_});
  for (const Tensor& average : averages_) average.storage().bump_version();
}

void EMA::copy_to(const std::vector<Tensor>& parameters) const {
  const EmaOp op;
  check_shapes(averages_, parameters);
  for (const Tensor& p : parameters) {
    check_floating(p);
    check<ValueError>(!overlaps_itself(p), describe(p), " has elements that share memory, and cannot be written to");
  }
  for (std::size_t i = 0; i < averages_.size(); ++i) copy(averages_[i], parameters[i]);
}

void EMA::swap() {
  const EmaOp op;
  check_all();
  std::size_t most = 0;
  for (const Tensor& p : parameters_) most = std::max(most, p.nbytes());
  const Device device = parameters_[0].device();
  const HeldWorkspace scratch(most, device);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &p = parameters_[i], &average = averages_[i];
    const View held(scratch.get().data, p.dtype(), device, p.shape(), p.strides());
    run<&CopyKernels::copy>(device, p.read(), held);
    copy(average, p);
    run<&CopyKernels::copy>(device, held, average.write());
    average.storage().bump_version();
  }
}

StateDict EMA::state_dict() const {
  StateDict state;
  for (std::size_t i = 0; i < averages_.size(); ++i) state.tensors.emplace_back(average_path(i), averages_[i]);
  state.numbers["has_begun"] = std::int64_t{has_begun_};
  return state;
}

void EMA::load_state_dict(const StateDict& state) {
  const EmaOp op;
  detail::refuse_in_capture("loads an average's state");
  check_names(state, state_dict());
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < averages_.size(); ++i) values.push_back(state.tensor(average_path(i)));
  check_shapes(averages_, values);
  for (std::size_t i = 0; i < averages_.size(); ++i)
    check<DeviceError>(!values[i].device().is_meta || averages_[i].device().is_meta, "the state's '", average_path(i),
                       "', ", describe(values[i]), ", holds no data");
  const bool has_begun = state.integer("has_begun") != 0;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    if (!values[i].is_same(averages_[i])) copy(values[i], averages_[i]);
  has_begun_ = has_begun;
}

}  // namespace bytetape::optim
