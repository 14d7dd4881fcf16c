#include "bytetape/core/dlpack.h"

#include <dlpack/dlpack.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "bytetape/core/check.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/external.h"
#include "bytetape/core/device/interop.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/storage.h"

namespace bytetape {
namespace {

using memory::Op;

DLDataType dlpack_dtype(DType t) {
  const auto code = [t]() -> DLDataTypeCode {
    if (t == DType::boolean) return kDLBool;
    if (t == DType::bf16) return kDLBfloat;
    if (is_floating(t)) return kDLFloat;
    return t == DType::u8 ? kDLUInt : kDLInt;
  }();
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(t)), 1};
}

DType dtype_from(DLDataType t) {
  using enum DType;
  for (const DType ours : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
    const DLDataType same = dlpack_dtype(ours);
    if (t.code == same.code && t.bits == same.bits && t.lanes == 1) return ours;
  }
  constexpr const char* kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string found = t.code < std::size(kinds)
                                ? detail::concat(kinds[t.code], int{t.bits})
                                : detail::concat("type code ", int{t.code}, " with ", int{t.bits}, " bits");
  fail<DTypeError>("expected one of bytetape's dtypes, got DLPack's ", found,
                   t.lanes == 1 ? "" : detail::concat(" in ", t.lanes, " lanes"));
}

Device device_from(DLDevice d) {
  if (d.device_type == kDLCPU || d.device_type == kDLCUDAHost) return Device::cpu();
  check<DeviceError>(d.device_type == kDLCUDA || d.device_type == kDLCUDAManaged,
                     "expected a tensor on the CPU or a CUDA device, got DLPack's device type ",
                     static_cast<int>(d.device_type));
  return Device::cuda(d.device_id);
}

/// The storages that other libraries hold. A tensor that comes back must share its storage with the original, because
/// the storage orders the streams that use its memory.
class ExportedStorages {
  using Key = std::pair<std::uintptr_t, const Storage*>;

 public:
  using Exports = std::map<Key, std::size_t>;  // with the number of exports, each of which holds the storage

  static ExportedStorages& instance() {
    static auto* all = new ExportedStorages;  // never destroyed: other libraries may end later
    return *all;
  }
  Exports::iterator add(const Storage& s) {
    const std::lock_guard lock(mutex_);
    const auto it = exports_.try_emplace({address(s.data()), &s}).first;
    ++it->second;
    return it;
  }
  void remove(Exports::iterator it) noexcept {
    const std::lock_guard lock(mutex_);
    if (--it->second == 0) exports_.erase(it);
  }
  /// Returns the storage with `bytes` at `data`, or null.
  Ref<Storage> find(const void* data, std::size_t bytes, Device device) {
    const std::uintptr_t from = address(data);
    const std::lock_guard lock(mutex_);
    for (auto it = exports_.lower_bound({from + 1, nullptr}); it != exports_.begin();) {
      const auto [begin, s] = (--it)->first;
      if (s->device() == device && from + bytes <= begin + s->bytes()) return Ref(const_cast<Storage*>(s));
    }
    return {};
  }

 private:
  static std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

  std::mutex mutex_;
  Exports exports_;
};

/// Makes our work on a storage wait for another library's stream: the work of the streams that used it, behind which
/// others wait, and later owners of the memory. It may run on any thread, beside ops on the storage.
void wait_for_other_library(const Storage& s, void* stream) noexcept {
  const int index = s.device().index;
  const std::uint32_t streams = s.streams();
  const Interop* const its = backend(s.device()).interop;
  if (!its) return;
  try {
    for (int ours = 0; ours < memory::stream_count; ++ours)
      if (streams >> ours & 1) its->order(index, stream, its->stream_handle(index, ours));
  } catch (const std::exception&) { its->wait_for_all(index); }
}

/// Throws CaptureError if a step is being recorded, here or by the other library.
void check_not_recorded(Device device, const DlpackOptions& options, const char* what) {
  const Interop* const its = backend(device).interop;
  if (!its) return;
  detail::refuse_in_capture(what);
  check<CaptureError>(!its->is_recorded(device.index, options.stream),
                      "the other library is recording work on its stream as a graph; exchange tensors before that");
}

/// A tensor in another library.
template <class Managed>
class Export {
 public:
  /// `data` is the address of x's first element.
  Export(const Tensor& x, void* data, void* stream)
      : storage_(x.impl()->storage), shape_(x.shape()), strides_(x.strides()), stream_(stream) {
    managed_.manager_ctx = this;
    managed_.deleter = [](Managed* self) { end(static_cast<Export*>(self->manager_ctx)); };
    if constexpr (is_versioned) {
      managed_.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
      if (storage_->is_read_only()) managed_.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    const Device device = x.device();
    managed_.dl_tensor = {.data = x.numel() == 0 ? nullptr : data,
                          .device = {device.type == DeviceType::cpu ? kDLCPU : kDLCUDA, device.index},
                          .ndim = x.rank(),
                          .dtype = dlpack_dtype(x.dtype()),
                          .shape = shape_.begin(),
                          .strides = strides_.begin(),
                          .byte_offset = 0};
    exported_ = ExportedStorages::instance().add(*storage_);
    storage_->expose();
  }
  ~Export() {
    ExportedStorages::instance().remove(exported_);
    const CurrentDevice current(storage_->device());
    wait_for_other_library(*storage_, stream_);
    storage_->end_exposure();
    storage_ = {};
  }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  Managed* managed() { return &managed_; }

 private:
  /// An event of the other stream cannot be waited for while the stream is recorded.
  static void end(Export* e) noexcept {
    const Device device = e->storage_->device();
    const Interop* const its = backend(device).interop;
    if (its && its->is_recorded(device.index, e->stream_)) try {
        return detail::run_after_recording(device, e->stream_, [e] { delete e; });
      } catch (const std::exception&) {}  // there is no memory or thread for it
    delete e;
  }

  static constexpr bool is_versioned = std::same_as<Managed, DLManagedTensorVersioned>;

  Managed managed_{};
  Ref<Storage> storage_;
  ExportedStorages::Exports::iterator exported_;
  Shape shape_;
  Strides strides_;
  void* stream_;
};

template <class Managed>
Managed* exported(const Tensor& x, const DlpackOptions& options) {
  check_defined(x);
  const Device device = x.device();
  check<DeviceError>(!device.is_meta, describe(x), " holds no data");
  Storage& s = x.storage();
  check<ValueError>(!s.residency().has_source(), describe(x), " is sharded, so its memory moves; clone() it first");
  const CurrentDevice current(device);
  check_not_recorded(device, options, "exports a tensor");
  void* const data = s.is_read_only() ? const_cast<void*>(x.read().data()) : x.write().data();
  s.disallow_eviction();
  auto exported = std::make_unique<Export<Managed>>(x, data, options.stream);
  if (const Interop* its = backend(device).interop)
    its->order(device.index, its->stream_handle(device.index, memory::ambient.scope.stream), options.stream);
  return exported.release()->managed();
}

/// Returns a tensor with its first element at `data`, in the memory of `s`.
Tensor view_of(const Ref<Storage>& s, const void* data, const Shape& shape, const Strides& strides, DType dtype) {
  const std::ptrdiff_t bytes = static_cast<const char*>(data) - static_cast<const char*>(s->data());
  const auto element = static_cast<std::ptrdiff_t>(size_of(dtype));
  check<ValueError>(bytes % element == 0, "expected a tensor at a multiple of ", element,
                    " bytes in the memory that it shares, got one at byte ", bytes, "; copy it first");
  auto impl = make_ref<TensorImpl>(shape, strides, dtype);
  impl->storage = s;
  impl->offset = bytes / element;
  impl->rebased_seen = TensorImpl::unbound;  // the tape knows nothing of the way here
  return Tensor(std::move(impl));
}

template <class Managed>
Tensor imported(Managed* managed, const DlpackOptions& options) {
  check<ValueError>(managed != nullptr, "expected a DLPack tensor, got a null pointer");
  bool is_read_only = false;
  if constexpr (std::same_as<Managed, DLManagedTensorVersioned>) {
    check<ValueError>(managed->version.major == DLPACK_MAJOR_VERSION, "expected DLPack version ", DLPACK_MAJOR_VERSION,
                      ", got version ", managed->version.major);
    is_read_only = managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  }
  const DLTensor& t = managed->dl_tensor;
  check(t.ndim >= 0 && t.ndim <= max_rank, "expected a tensor with at most ", max_rank, " dims, got ", t.ndim);
  check<ValueError>(t.ndim == 0 || t.shape, "expected a shape, got a null pointer");
  const auto rank = static_cast<std::size_t>(t.ndim);
  const Shape shape(std::span<const std::int64_t>(t.shape, rank));
  const DType dtype = dtype_from(t.dtype);
  bytes_of(shape, dtype);  // throws before the strides overflow
  const Strides strides =
      t.strides ? Strides(std::span<const std::int64_t>(t.strides, rank)) : contiguous_strides(shape);
  const Device device = device_from(t.device);
  void* const data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
  const std::size_t bytes = detail::check_blob(data, shape, strides, dtype, device);
  const CurrentDevice current(device);
  check_not_recorded(device, options, "imports a tensor");
  std::function<void()> end;  // none without a deleter, because then the struct may be gone by the time of the release
  if (managed->deleter) end = [managed] { managed->deleter(managed); };
  const Ref<Storage> original = bytes > 0 ? ExportedStorages::instance().find(data, bytes, device) : Ref<Storage>();
  if (original) {
    Tensor x = view_of(original, data, shape, detail::forward_strides(strides), dtype);
    wait_for_other_library(*original, options.stream);
    if (end) end();
    return x;
  }
  Tensor x = from_blob(data, shape, dtype, {strides, device, end, is_read_only});
  wait_for_other_library(x.storage(), options.stream);
  return x;
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& x, const DlpackOptions& options) {
  const Op<"to_dlpack"> op;
  return exported<DLManagedTensorVersioned>(x, options);
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& x, const DlpackOptions& options) {
  const Op<"to_dlpack"> op;
  return exported<DLManagedTensor>(x, options);
}

Tensor from_dlpack(DLManagedTensorVersioned* managed, const DlpackOptions& options) {
  const Op<"from_dlpack"> op;
  return imported(managed, options);
}

Tensor from_dlpack(DLManagedTensor* managed, const DlpackOptions& options) {
  const Op<"from_dlpack"> op;
  return imported(managed, options);
}

}  // namespace bytetape
