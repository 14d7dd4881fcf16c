#pragma once
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/grad_scale.h"
#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/kernels/table.h"
#include "tests/support/stand_in.h"

namespace bytetape::optim {

/// A device that can have a fault pending, as CUDA does: its optimizer kernels then count what they skip, and a
/// gradient scaler's write nothing. Steps run at once, but the host learns of the fault only when it is thrown.
class FaultyDevice {
 public:
  static constexpr Device device = Device::cuda();

  FaultyDevice() { pending_ = false; }

  /// A kernel leaves a fault.
  void leave_fault() { pending_ = true; }
  /// The host throws it, and catches it.
  void throw_fault() {
    pending_ = false;
    ++thrown_;
  }

 private:
  static const KernelTable& kernels() {
    static const OptimizerKernels steps = [] {
      OptimizerKernels k = cpu::optimizer_kernels();
      k.sgd = sgd;
      k.adam = adam;
      k.rmsprop = rmsprop;
      k.muon = muon;
      k.ema = ema;
      return k;
    }();
    static const GradScaleKernels scales{.unscale = unscale, .update_scale = update_scale};
    static const KernelTable all = [] {
      KernelTable k = cpu::kernels();
      k.set(steps);
      k.set(scales);
      return k;
    }();
    return all;
  }
  template <class Slot>
  static bool skips(std::span<const Slot> slots) {
    if (pending_)
      for (const Slot& s : slots) ++*s.skipped;
    return pending_;
  }
  static void sgd(std::span<const SgdSlot> slots, const SgdParams& p) {
    if (!skips(slots)) cpu::optimizer_kernels().sgd(slots, p);
  }
  static void adam(std::span<const AdamSlot> slots, const AdamParams& p) {
    if (!skips(slots)) cpu::optimizer_kernels().adam(slots, p);
  }
  static void rmsprop(std::span<const RmspropSlot> slots, const RmspropParams& p) {
    if (!skips(slots)) cpu::optimizer_kernels().rmsprop(slots, p);
  }
  static void muon(std::span<const MuonSlot> slots, const MuonParams& p) {
    if (!skips(slots)) cpu::optimizer_kernels().muon(slots, p);
  }
  static void ema(std::span<const OptimizerSlot> slots, const EmaParams& p) {
    if (!pending_) cpu::optimizer_kernels().ema(slots, p);
  }
  static void unscale(const UnscaleArgs& args) {
    if (!pending_) cpu::grad_scale_kernels().unscale(args);
  }
  static void update_scale(const UpdateScaleArgs& args) {
    if (!pending_) cpu::grad_scale_kernels().update_scale(args);
  }

  const test::StandIn stand_in_{{.kernels = &kernels(), .faults_thrown = [](int) { return thrown_; }}};
  inline static bool pending_ = false;
  inline static std::uint64_t thrown_ = 0;
};

}  // namespace bytetape::optim
