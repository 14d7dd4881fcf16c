#pragma once
// A device on the host's memory that can have a fault pending, as CUDA does: its optimizer kernels then count what they
// skip, and a gradient scaler's write nothing. Steps run at once, but the host learns of the fault only when it is
// thrown.
#include <memory>

#include "bytetape/core/backend.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::optim {

class FaultyDevice {
 public:
  static constexpr Device device = Device::cuda();

  FaultyDevice() {
    pending_ = false;
    static const Kernels kernels(copies(), ArithmeticKernels{.mul = cpu::kernels().mul},
                                 GradScaleKernels{.unscale = unscale, .update_scale = update_scale},
                                 OptimizerKernels{.sgd = sgd, .adam = adam});
    register_backend(DeviceType::cuda, {.kernels = &kernels,
                                        .allocator = allocator,
                                        .meta_allocator = allocator,
                                        .faults_thrown = [](int) { return thrown_; }});
  }
  ~FaultyDevice() { register_backend(DeviceType::cuda, {}); }

  /// A kernel leaves a fault.
  void leave_fault() { pending_ = true; }
  /// The host throws it, and catches it.
  void throw_fault() {
    pending_ = false;
    ++thrown_;
  }

 private:
  static CopyKernels copies() {
    return {.fill = cpu::kernels().fill, .copy = cpu::kernels().copy, .arange = cpu::kernels().arange};
  }
  static memory::Allocator& allocator(int) {
    static memory::Allocator a(device, std::make_unique<memory::HostUpstream>());
    return a;
  }
  template <class Slot>
  static bool skips(std::span<const Slot> slots) {
    if (pending_)
      for (const Slot& s : slots) ++*s.skipped;
    return pending_;
  }
  static void sgd(std::span<const SgdSlot> slots, const SgdParams& p) {
    if (!skips(slots)) cpu::kernels().sgd(slots, p);
  }
  static void adam(std::span<const AdamSlot> slots, const AdamParams& p) {
    if (!skips(slots)) cpu::kernels().adam(slots, p);
  }
  static void unscale(const UnscaleArgs& args) {
    if (!pending_) cpu::kernels().unscale(args);
  }
  static void update_scale(const UpdateScaleArgs& args) {
    if (!pending_) cpu::kernels().update_scale(args);
  }

  inline static bool pending_ = false;
  inline static std::uint64_t thrown_ = 0;
};

}  // namespace bytetape::optim
