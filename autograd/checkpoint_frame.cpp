// The first run records the same graph as without a checkpoint. Its nodes save a place in the frame instead of a
// tensor. The second run records nodes that are discarded. It saves the same tensors in the same order, and they fill
// the places.
#include "bytetape/autograd/checkpoint_frame.h"

#include <utility>

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/attention/attention.h"
#include "bytetape/core/device/default_device.h"
#include "bytetape/core/images/draws.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/setting.h"

namespace bytetape::detail {

bool runs_again() { return autograd_ambient.runs_again; }

std::vector<Tensor> checkpoint(ListFunction fn, std::span<const Tensor> inputs) {
  if (!grad_enabled()) return fn(inputs);
  return make_ref<CheckpointFrame>(std::move(fn), inputs)->run(inputs);
}

CheckpointFrame::CheckpointFrame(ListFunction fn, std::span<const Tensor> inputs)
    : fn_(std::move(fn)),
      autocast_(autocast_dtype()),
      fused_attention_(fused_attention()),
      recompute_(autograd_ambient.recompute),
      default_device_(default_device()),
      module_(memory::ambient.running_module ? *memory::ambient.running_module : nullptr) {
  for (const Tensor& x : inputs) inputs_.emplace_back(this).save(x);
}

std::vector<Tensor> CheckpointFrame::run(std::span<const Tensor> inputs) {
  const Setting state(state_, State::first);
  const Setting outer(outer_, autograd_ambient.checkpoint);
  const Setting running(autograd_ambient.checkpoint, this);
  const Draws draws(draws_, Draws::Mode::keep);
  return fn_(inputs);
}

bool CheckpointFrame::takes(Saved& saved, const Tensor& x) {
  if (x.is_leaf() && x.requires_grad()) return false;
  if (state_ == State::second) {
    made_.push_back({x, x.storage().version()});
    return true;
  }
  substitute(saved, x, static_cast<std::uint32_t>(left_out_.size()));
  left_out_.push_back({&saved, {x.shape(), x.dtype(), x.device()}});
  return true;
}

void CheckpointFrame::note_leaves(std::span<const Tensor* const> inputs) {
  if (outer_) outer_->note_leaves(inputs);
  if (state_ != State::first) return;
  for (const Tensor* x : inputs)
    if (x->requires_grad() && x->is_leaf()) leaves_.emplace_back(this).save(*x);
}

void CheckpointFrame::bring_back() {
  check<AutogradError>(state_ == State::waiting,
                       "backward runs within a function that checkpoint() runs, through what that has not kept; run it "
                       "outside, or the function without checkpoint()");
  const Setting made(made_, {});
  make();
  check_made();
  fill_in();
}

void CheckpointFrame::make() {
  const memory::ScopeGuard where(scope);
  const Setting<const memory::ModuleCell*> module(memory::ambient.running_module, &module_);
  const Autocast autocast(autocast_);
  const Setting fused(autograd_ambient.fused_attention, std::optional(fused_attention_));
  const Setting recompute(autograd_ambient.recompute, recompute_);
  const DefaultDevice device(default_device_);
  const GradMode records(true);
  std::vector<Tensor> inputs;
  for (const Saved& x : inputs_) inputs.push_back(x.get());
  for (const Saved& x : leaves_) x.get();  // throws if the leaf was overwritten
  const Setting state(state_, State::second);
  const Setting running(autograd_ambient.checkpoint, this);
  const Setting second(autograd_ambient.runs_again, true);
  const Draws draws(draws_, Draws::Mode::repeat);
  fn_(inputs);
  draws.check_all_repeated();
}

void CheckpointFrame::check_made() const {
  check<AutogradError>(made_.size() == left_out_.size(),
                       "a function that checkpoint() ran saves other tensors when it runs again, ", made_.size(),
                       " where it saved ", left_out_.size(), "; it must do the same each time");
  for (std::size_t i = 0; i < made_.size(); ++i) {
    const auto& [shape, dtype, device] = left_out_[i].looks;
    const Tensor& x = made_[i].x;
    check<AutogradError>(x.shape() == shape && x.dtype() == dtype && x.device() == device,
                         "a function that checkpoint() ran saves other tensors when it runs again, ", describe(x),
                         " where it saved ", dtype, shape, " on ", device, "; it must do the same each time");
  }
}

void CheckpointFrame::fill_in() {
  for (std::size_t i = 0; i < made_.size(); ++i)
    if (Saved* const saved = std::exchange(left_out_[i].saved, nullptr)) put_back(*saved, made_[i].x, made_[i].version);
  left_out_.clear();
  release();  // drops inputs_ and leaves_
  fn_ = nullptr;
}

}  // namespace bytetape::detail
