#include "bytetape/python/capsule.h"

#include <dlpack/dlpack.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/interop.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/dlpack.h"

namespace bytetape::python {
namespace {

namespace nb = nanobind;

template <class Managed>
constexpr const char* name_of = "dltensor";
template <>
constexpr const char* name_of<DLManagedTensorVersioned> = "dltensor_versioned";
template <class Managed>
constexpr const char* used_name_of = "used_dltensor";
template <>
constexpr const char* used_name_of<DLManagedTensorVersioned> = "used_dltensor_versioned";

/// A capsule that nobody took over deletes its tensor. A consumer renames the capsule.
template <class Managed>
nb::object capsule(Managed* managed) {
  PyObject* const made = PyCapsule_New(managed, name_of<Managed>, [](PyObject* self) {
    if (!PyCapsule_IsValid(self, name_of<Managed>)) return;
    auto* const unused = static_cast<Managed*>(PyCapsule_GetPointer(self, name_of<Managed>));
    unused->deleter(unused);
  });
  if (!made) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return nb::steal(made);
}

/// Returns the handle of the thread's stream. Null on the CPU.
void* our_stream(Device device) {
  const Interop* const its = backend(device).interop;
  return its ? its->stream_handle(device.index, current_stream().number()) : nullptr;
}

/// Returns the handle of the consumer's stream on the device of the exported tensor.
void* consumer_stream(std::optional<std::int64_t> stream, Device device) {
  if (device == Device::cpu()) return nullptr;
  check<ValueError>(stream != 0, "__dlpack__: stream 0 is ambiguous; use 1 for the default stream");
  check<ValueError>(stream.value_or(1) >= -1, "__dlpack__: expected a stream, got ", stream.value_or(1));
  if (stream == 2) throw nb::buffer_error("__dlpack__: the per-thread default stream (2) is not supported");
  if (stream == -1) return our_stream(device);  // the consumer orders the work itself
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream.value_or(1)));
}

/// Returns the device with a type and number of DLPack.
Device device_of(std::pair<int, int> d) {
  if (d.first == kDLCPU) return Device::cpu();
  if (d.first != kDLCUDA) throw nb::buffer_error("__dlpack__: dl_device must be the CPU or a CUDA device");
  return Device::cuda(d.second);
}

/// Returns x, or a copy if the consumer wants one or if x is elsewhere.
Tensor for_consumer(const Tensor& x, Device device, std::optional<bool> copy) {
  if (device != x.device() && copy == false) throw nb::buffer_error("__dlpack__: another device needs a copy");
  const nb::gil_scoped_release release;  // a copy from a GPU waits for it
  if (device != x.device()) return to(x, device);
  return copy == true ? clone(x) : x;
}

/// Tensors of GPUs that go back to their libraries on Python's main thread, because the deleters of JAX 0.11 must not
/// run beside its other functions.
class Returns {
 public:
  static Returns& instance() {
    static auto* all = new Returns;  // never destroyed, as the thread that adds to it
    return *all;
  }
  void add(std::function<void()> f) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(f));
    // If Python has too many such calls, one of them runs all functions.
    Py_AddPendingCall([](void*) { return instance().run(), 0; }, nullptr);
  }
  void run() {
    std::unique_lock lock(mutex_);
    const std::vector<std::function<void()>> all = std::exchange(waiting_, {});
    lock.unlock();
    for (const auto& f : all) f();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
};

/// A tensor of another library, whose deleter is called with Python's lock.
template <class Managed>
struct Taken {
  Managed managed;
  Managed* original;

  explicit Taken(Managed* m) : managed(*m), original(m) {
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { end(static_cast<Taken*>(self->manager_ctx)); };
  }
  static void end(Taken* taken) {
    const std::unique_ptr<Taken> ended(taken);
    Managed* const m = taken->original;
    if (!m->deleter || !Py_IsInitialized()) return;
    if (m->dl_tensor.device.device_type != kDLCPU) return Returns::instance().add([m] { m->deleter(m); });
    const nb::gil_scoped_acquire lock;
    m->deleter(m);
  }
};

template <class Managed>
Tensor take_over(nb::handle capsule, void* stream) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name_of<Managed>));
  auto taken = std::make_unique<Taken<Managed>>(managed);
  Tensor x = bytetape::from_dlpack(&taken->managed, {.stream = stream});
  taken.release();                                          // x calls its deleter
  PyCapsule_SetName(capsule.ptr(), used_name_of<Managed>);  // so that its destructor leaves the tensor to x
  return x;
}

/// Calls `__dlpack__`, of an older library without the arguments that it does not know.
nb::object capsule_of(nb::handle object, nb::object stream) {
  const nb::object method = object.attr("__dlpack__");
  try {
    return method(nb::arg("stream") = stream,
                  nb::arg("max_version") = std::pair(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION));
  } catch (const nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
  }
  return method(nb::arg("stream") = stream);
}

}  // namespace

std::pair<int, int> dlpack_device(const Tensor& x) {
  const Device d = x.device();
  if (d.is_meta) throw nb::buffer_error("__dlpack_device__: a meta tensor has no memory");
  return {d.type == DeviceType::cpu ? kDLCPU : kDLCUDA, d.index};
}

nb::object to_capsule(const Tensor& x, const CapsuleOptions& options) {
  if (x.requires_grad()) throw nb::buffer_error("__dlpack__: the tensor requires grad; use detach()");
  if (x.device().is_meta) throw nb::buffer_error("__dlpack__: a meta tensor has no memory");
  const Device device = options.dl_device ? device_of(*options.dl_device) : x.device();
  check<ValueError>(x.device() != Device::cpu() || device != x.device() || options.stream.value_or(-1) == -1,
                    "__dlpack__: expected no stream for a tensor on the CPU, got ", options.stream.value_or(-1));
  const CurrentDevice current(device == Device::cpu() ? x.device() : device);
  const DlpackOptions to{.stream = consumer_stream(options.stream, device)};
  const Tensor y = for_consumer(x, device, options.copy);
  if (options.max_version && options.max_version->first >= 1) {
    DLManagedTensorVersioned* const managed = to_dlpack(y, to);
    if (y.impl() != x.impl()) managed->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return capsule(managed);
  }
  if (y.storage().is_read_only()) throw nb::buffer_error("__dlpack__: DLPack 0 has no read-only tensors; copy it");
  return capsule(to_dlpack_unversioned(y, to));
}

void return_finished() { Returns::instance().run(); }

Tensor from_capsule_of(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__") || !nb::hasattr(object, "__dlpack_device__"))
    throw nb::type_error("from_dlpack: expected an object with __dlpack__ and __dlpack_device__");
  const auto where = nb::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
  const bool is_on_gpu = where.first == kDLCUDA || where.first == kDLCUDAManaged;
  const Device device = is_on_gpu ? Device::cuda(where.second) : Device::cpu();
  const CurrentDevice current(device);  // PyTorch looks for its own stream there
  void* const stream = our_stream(device);
  const nb::object argument =
      is_on_gpu ? nb::object(nb::int_(reinterpret_cast<std::uintptr_t>(stream))) : nb::object(nb::none());
  const nb::object capsule = capsule_of(object, argument);  // its library makes our stream wait
  if (PyCapsule_IsValid(capsule.ptr(), name_of<DLManagedTensorVersioned>))
    return take_over<DLManagedTensorVersioned>(capsule, stream);
  if (PyCapsule_IsValid(capsule.ptr(), name_of<DLManagedTensor>)) return take_over<DLManagedTensor>(capsule, stream);
  throw nb::type_error("from_dlpack: __dlpack__ returned no DLPack capsule");
}

}  // namespace bytetape::python
