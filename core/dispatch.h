#pragma once
#include <string_view>
#include <type_traits>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/table.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/memory/work.h"
#include "bytetape/core/tensor.h"

namespace bytetape {
namespace detail {

/// Returns the name of a kernel, "relu" for &PointwiseKernels::relu, from the compiler's spelling of the template
/// argument.
template <auto Kernel>
constexpr std::string_view kernel_name() {
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr auto at = text.find("Kernels::") + 9;
  return text.substr(at, text.find_first_of(";]", at) - at);
}

/// Returns the kernel from the device's table. On a meta device its launch() may be missing.
/// Throws NotImplemented if the device lacks the kernel.
template <auto Kernel>
auto find_kernel(Device device) {
  const auto kernel = backend(device).kernels->find(Kernel);
  bool is_there = device.is_meta;
  if constexpr (requires { kernel.plan; })
    is_there = kernel.plan && (is_there || kernel.launch);
  else
    is_there = is_there || kernel;
  if (!is_there) [[unlikely]]
    fail<NotImplemented>(kernel_name<Kernel>(), ": not implemented on ", device);
  return kernel;
}

template <class... Args>
[[gnu::noinline, gnu::cold]] void count_work(Device device, const Args&... args) {
  memory::count_work(device, work_of(args...));
}
/// Counts a launch, if anybody counts (core/memory/work.h).
template <class... Args>
void note_work(Device device, const Args&... args) {
  if (memory::work_counters.load(std::memory_order_relaxed)) [[unlikely]]
    count_work(device, args...);
}

}  // namespace detail

/// Runs a kernel of the device's table. On a meta device, only counts its work.
template <auto Kernel, class... Args>
void run(Device device, const Args&... args) {
  const auto kernel = detail::find_kernel<Kernel>(device);
  detail::note_work(device, args...);  // first, so that the kernel can be a tail call
  if (!device.is_meta) kernel(args...);
}

/// Memory of the role `workspace`, held while the op runs.
class HeldWorkspace {
 public:
  HeldWorkspace(std::size_t bytes, Device device);
  Workspace get() const { return ws_; }

 private:
  Ref<Storage> storage_;
  Workspace ws_;
};

/// A planned kernel of the device's table, with its workspace, held while this lives.
template <auto Kernel>
class Prepared {
 public:
  using Entry = decltype(std::declval<const KernelTable&>().find(Kernel));
  using Args = typename Entry::Args;

  Prepared(Device device, const Args& args)
      : device_(device),
        kernel_(detail::find_kernel<Kernel>(device)),
        plan_(kernel_.plan(args)),
        workspace_(plan_.workspace, device) {}

  /// Launches the kernel, any number of times. `args` may differ from the planned ones in addresses only. On a meta
  /// device, only counts its work.
  void launch(const Args& args) const {
    detail::note_work(device_, args);
    if (!device_.is_meta) kernel_.launch(args, plan_, workspace_.get());
  }

 private:
  Device device_;
  Entry kernel_;
  Plan plan_;
  HeldWorkspace workspace_;
};

/// Plans a kernel, allocates its workspace and launches it. A meta device skips the launch only.
template <auto Kernel>
void run_planned(Device device, const typename Prepared<Kernel>::Args& args) {
  Prepared<Kernel>(device, args).launch(args);
}

}  // namespace bytetape
