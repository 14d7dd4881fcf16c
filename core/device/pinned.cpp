#include "bytetape/core/device/pinned.h"

#include <utility>

#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {

Tensor empty_pinned(const Shape& shape, DType dtype, Device device, memory::Role role) {
  const memory::Op<"empty_pinned"> op;
  memory::PinnedMemory* const memory = memory::pinned_for(device);
  check<DeviceError>(memory, "there is no host memory that is pinned for ", device);
  const std::size_t bytes = bytes_of(shape, dtype);  // first: what it lets through has strides
  auto impl = make_ref<TensorImpl>(shape, dtype);
  impl->storage = make_ref<Storage>(bytes, *memory, role);
  return Tensor(std::move(impl));
}

Tensor pin_memory(const Tensor& x, Device device) {
  const memory::Op<"pin_memory"> op;
  check_defined(x);
  if (is_pinned(x) && x.storage().pinned() == memory::pinned_for(device)) return x;
  check<DeviceError>(x.device().type == DeviceType::cpu && x.device().is_meta == device.is_meta, describe(x),
                     " cannot be pinned for ", device, ": only what is on ",
                     device.is_meta ? Device::meta() : Device::cpu(), " can");
  const memory::Role role = x.storage().role() == memory::Role::input ? memory::Role::input : memory::Role::temporary;
  Tensor y = empty_pinned(x.shape(), x.dtype(), device, role);
  run<&CopyKernels::copy>(x.device(), x.read(), y.write());
  return y;
}

}  // namespace bytetape
