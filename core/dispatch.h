#pragma once
#include <string_view>

#include "bytetape/core/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/tensor.h"

namespace bytetape {
namespace detail {

/// "relu" of &Kernels::relu, read off the compiler's own spelling.
template <auto Kernel>
constexpr std::string_view kernel_name() {
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr auto at = text.find("Kernels::") + 9;
  return text.substr(at, text.find_first_of(";]", at) - at);
}

template <auto Kernel>
auto find_kernel(Device device) {
  const auto kernel = backend(device).kernels->*Kernel;
  if (!kernel) [[unlikely]]
    fail<NotImplemented>(kernel_name<Kernel>(), ": not implemented on ", device);
  return kernel;
}

}  // namespace detail

/// Runs a kernel of the device's table; on a meta device only checks that there is one.
template <auto Kernel, class... Args>
void run(Device device, const Args&... args) {
  const auto kernel = detail::find_kernel<Kernel>(device);
  if (!device.is_meta) kernel(args...);
}

/// Memory that a kernel asked for, held for the length of an op.
class HeldWorkspace {
 public:
  HeldWorkspace(std::size_t bytes, Device device);
  Workspace get() const { return ws_; }

 private:
  Ref<Storage> storage_;
  Workspace ws_;
};

/// Takes what `Kernels::*_workspace` asks for, from the allocator, under the role `workspace`.
template <auto SizeOf, class... Args>
HeldWorkspace workspace(Device device, const Args&... args) {
  return {detail::find_kernel<SizeOf>(device)(args...), device};
}

}  // namespace bytetape
