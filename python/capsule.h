#pragma once
#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "bytetape/core/tensor.h"

/// DLPack's Python protocol (https://data-apis.org/array-api/latest/design_topics/data_interchange.html).
namespace bytetape::python {

/// Arguments of `__dlpack__`.
struct CapsuleOptions {
  std::optional<std::int64_t> stream;              ///< the consumer's; none, 1: the default stream; -1: do not order
  std::optional<std::pair<int, int>> max_version;  ///< none: the consumer knows DLPack 0 only
  std::optional<std::pair<int, int>> dl_device;    ///< type and number of the device to copy to
  std::optional<bool> copy;                        ///< none: only if needed
};

/// Returns a capsule with x, or with a copy of it.
/// Throws BufferError if x requires grad or is on a meta device, if `stream` is 2 (the default stream of each thread),
/// or if a copy is needed that `copy` forbids.
nanobind::object to_capsule(const Tensor& x, const CapsuleOptions& options);
/// Returns DLPack's type and number of x's device.
/// Throws BufferError if x is on a meta device, which has no memory.
std::pair<int, int> dlpack_device(const Tensor& x);
/// Returns memory of GPUs to other libraries, if we are done with it. Call it with Python's lock.
void return_finished();
/// Returns the tensor of an object that has `__dlpack__` and `__dlpack_device__`, and takes over its capsule.
Tensor from_capsule_of(nanobind::handle object);

}  // namespace bytetape::python
