#include "bytetape/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bytetape/core/kernels/copy.h"

namespace bytetape::optim {
namespace {

/// A parameter's memory as a row-major matrix. A matrix whose columns are adjacent is taken as its transpose, because
/// the orthogonalized transpose is the transpose of the orthogonalized matrix. The order of columns does not matter.
struct Matrix {
  std::int64_t rows, columns;
};

Matrix matrix_of(const Tensor& p) {
  const std::int64_t m = p.size(0), n = m == 0 ? 0 : p.numel() / m;
  if (m <= 1 || p.strides()[0] == n) return {m, n};
  const bool is_transposed = p.rank() == 2 && p.strides()[0] == 1;
  check<NotImplemented>(is_transposed,
                        "expected the first dim of a flattened parameter to be outermost in memory, got ", describe(p),
                        " with strides ", p.strides());
  return {n, m};
}

/// Returns AdjustLr's factor for a parameter.
double factor(AdjustLr by, const Tensor& p) {
  const auto m = static_cast<double>(p.size(0)), n = static_cast<double>(p.numel()) / m;
  return by == AdjustLr::original ? std::sqrt(std::max(1.0, m / n)) : 0.2 * std::sqrt(std::max(m, n));
}

/// The dtype that directions of a parameter are computed in.
DType computed_dtype(const Tensor& p) {
  if (p.device().type == DeviceType::cuda) return DType::bf16;
  return p.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace

Muon::Muon(std::vector<Tensor> parameters, const MuonOptions& options)
    : Muon(std::vector<ParamGroup>{{.params = std::move(parameters)}}, options) {}

Muon::Muon(std::vector<ParamGroup> groups, const MuonOptions& o)
    : Optimizer(std::move(groups),
                {.lr = o.lr,
                 .momentum = o.momentum,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .nesterov = o.nesterov,
                 .ns_coefficients = o.ns_coefficients,
                 .ns_steps = o.ns_steps,
                 .adjust_lr_fn = o.adjust_lr_fn},
                "muon"),
      flatten_(o.flatten),
      momentum_buffers_(parameters().size()) {
  check_groups();
}

void Muon::check_options(const ParamGroup& g) const {
  check_not_negative("momentum", *g.momentum);
  check_not_negative("weight_decay", *g.weight_decay);
  check_not_negative("eps", *g.eps);
  for (const double c : *g.ns_coefficients)
    check<ValueError>(std::isfinite(c), "expected finite ns_coefficients, got ", c);
  check<ValueError>(*g.ns_steps >= 0 && *g.ns_steps < 100, "ns_steps must be from 0 to 99, got ", *g.ns_steps);
  for (const Tensor& p : g.params) {
    check(p.rank() == 2 || (flatten_ && p.rank() > 2), "expected matrices, got the parameter ", describe(p),
          p.rank() > 2 ? ": set flatten to take it as a matrix of size(0) rows" : ": use another optimizer for it");
    matrix_of(p);  // throws if its layout cannot be taken as a matrix
  }
}

std::function<void()> Muon::replay_check() const {
  std::vector<ParamGroup> recorded;
  for (const std::size_t i : moved())
    recorded.push_back(
        {.eps = group(i).eps, .ns_coefficients = group(i).ns_coefficients, .ns_steps = group(i).ns_steps});
  return [this, indices = moved(), recorded] {
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const ParamGroup& now = group(indices[k]);
      check<CaptureError>(now.eps == recorded[k].eps && now.ns_steps == recorded[k].ns_steps &&
                              now.ns_coefficients == recorded[k].ns_coefficients,
                          "eps, ns_steps or ns_coefficients changed since the step was captured: capture it again");
    }
  };
}

/// Returns the batches of the moved parameters, in the order of their first members.
std::vector<Muon::Batch> Muon::batches() const {
  std::vector<Batch> all;
  for (std::size_t k = 0; k < moved().size(); ++k) {
    const Tensor& p = parameters()[moved()[k]];
    const ParamGroup& g = group(moved()[k]);
    const auto [rows, columns] = matrix_of(p);
    const auto fits = [&, rows = rows, columns = columns](const Batch& b) {
      return b.rows == rows && b.columns == columns && b.steps == *g.ns_steps && b.coefficients == *g.ns_coefficients &&
             computed_dtype(b.like) == computed_dtype(p);
    };
    auto at = std::find_if(all.begin(), all.end(), fits);
    if (at == all.end()) at = all.insert(at, Batch{rows, columns, *g.ns_coefficients, *g.ns_steps, p});
    at->members.push_back(k);
  }
  return all;
}

void Muon::prepare(const std::vector<Tensor>& gradients) {
  direction_kernel_.reset();
  orthogonalized_.clear();
  batches_ = batches();
  make_slots(gradients);
  make_directions();
  if (!slots_.empty()) direction_kernel_.emplace(slots_[0].parameter.device, direction_args());
}

void Muon::make_slots(const std::vector<Tensor>& gradients) {
  slots_.clear();
  eps_.clear();
  for (const std::size_t i : moved()) {
    const Tensor& p = parameters()[i];
    Tensor& buffer = momentum_buffers_[i];
    if (!buffer.defined()) {
      buffer = new_state(p);
      run<&CopyKernels::fill>(p.device(), Scalar(0), buffer.write());
    }
    check_state(buffer, p);
    slots_.push_back({slot(i, gradients[i]), buffer.write(), {}});
    eps_.push_back(*group(i).eps);
  }
}

/// Allocates the directions, and a copy in the parameter's dtype for those whose dtype no gradient may have.
void Muon::make_directions() {
  directions_.assign(slots_.size(), {});
  converted_.assign(slots_.size(), {});
  for (const Batch& b : batches_) {
    const DType dtype = computed_dtype(b.like);
    const NewtonSchulz& all = orthogonalized_.emplace_back(
        MatrixBatch{static_cast<std::int64_t>(b.members.size()), b.rows, b.columns, dtype, b.like.device()});
    for (std::size_t j = 0; j < b.members.size(); ++j) {
      const std::size_t k = b.members[j];
      const Tensor& p = parameters()[moved()[k]];
      directions_[k] = all.matrix(static_cast<std::int64_t>(j), p.shape(), p.strides());
      if (p.dtype() != dtype && p.dtype() != DType::f32) converted_[k] = empty_like(p);
    }
  }
}

MuonDirectionArgs Muon::direction_args() const {
  return {slots_, directions_, eps_, {step_params_, static_cast<const MuonStepParams*>(replay_params())}};
}

void Muon::set_step_params() {
  step_params_.clear();
  for (const std::size_t i : moved()) {
    const ParamGroup& g = group(i);
    step_params_.push_back({.lr = *g.lr * factor(*g.adjust_lr_fn, parameters()[i]),
                            .keep = 1 - *g.lr * *g.weight_decay,
                            .momentum = *g.momentum,
                            .is_nesterov = *g.nesterov});
  }
}

void Muon::launch() {
  if (slots_.empty()) return;
  const Device device = parameters()[0].device();
  if (late().wait) late().wait();
  direction_kernel_->launch(direction_args());
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    orthogonalized_[b].run(batches_[b].coefficients, batches_[b].steps);
    for (std::size_t j = 0; j < batches_[b].members.size(); ++j) {
      const std::size_t k = batches_[b].members[j];
      const View& place = directions_[k];
      slots_[k].direction = orthogonalized_[b].matrix(static_cast<std::int64_t>(j), place.shape, place.strides);
      if (!converted_[k].defined()) continue;
      run<&CopyKernels::copy>(device, slots_[k].direction, converted_[k].write());
      slots_[k].direction = converted_[k].read();
    }
  }
  run<&OptimizerKernels::muon>(
      device, slots_,
      MuonParams{step_params_, static_cast<const MuonStepParams*>(replay_params()), found_inf(), faults_seen(), {}});
  orthogonalized_.clear();
  converted_.clear();
  direction_kernel_.reset();
}

}  // namespace bytetape::optim
