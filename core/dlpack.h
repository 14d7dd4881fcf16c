#pragma once
#include "bytetape/core/tensor.h"

// From dlpack/dlpack.h, which the caller includes.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/// Tensors of other libraries in the same process, without a copy (https://dmlc.github.io/dlpack).
///
///     Tensor x = from_dlpack(at::toDLPackVersioned(t));     // of PyTorch
///     at::Tensor u = at::fromDLPackVersioned(to_dlpack(y));  // to PyTorch
///
/// Writes on one side are seen by the other. Neither side's autograd sees those of the other.
namespace bytetape {

/// The other library's part in an exchange of GPU tensors.
struct DlpackOptions {
  /// The stream (cudaStream_t) on which the other library works. Null: CUDA's default stream, as in PyTorch.
  void* stream = nullptr;
};

/// Returns x for another library (DLPack 1). That library calls the deleter, on any thread, to give x's memory back.
///
/// On a GPU, the other stream first waits for the work on x so far. The deleter makes later work of ours wait for that
/// stream, which must exist until then, or until finish_releases() if it is being recorded. x's memory stays on the
/// device and keeps its role. Until the deleter is called, each op that reads x in 16 bits under autocast copies it.
/// Throws ValueError if x is undefined, or if its bytes come from a source (Storage::set_source).
/// Throws DeviceError if x is on a meta device.
/// Throws CaptureError if x is on a GPU, and a step is being captured or the other stream is being recorded.
/// Throws Error if this library was built without dlpack.h.
DLManagedTensorVersioned* to_dlpack(const Tensor& x, const DlpackOptions& options = {});
/// Returns x for a library that knows DLPack 0 only. Such a library may write a read-only tensor. Otherwise as
/// to_dlpack().
DLManagedTensor* to_dlpack_unversioned(const Tensor& x, const DlpackOptions& options = {});

/// Returns a tensor on the memory of another library. Its deleter is called once no tensor uses the memory. On a GPU,
/// the thread's stream waits for the other stream, and the deleter is called on a thread of its own, once the GPU is
/// done. Read-only memory stays read-only. The ledger has the memory as `external`.
///
/// If the memory was exported by to_dlpack(), and the other library still uses it, the result shares the storage of the
/// original: its role, its streams, and whether it may be written. The deleter is then called at once.
/// Throws ValueError if `managed` is null, a stride is negative, the address is not a multiple of the element size, or
/// the version is not 1.
/// Throws DTypeError or DeviceError if there is no such dtype or device here.
/// Throws ShapeError if it has more than 8 dims.
/// Throws CaptureError if it is on a GPU, and a step is being captured or the other stream is being recorded.
/// Throws Error if this library was built without dlpack.h.
/// After an exception, the caller still owns it.
Tensor from_dlpack(DLManagedTensorVersioned* managed, const DlpackOptions& options = {});
Tensor from_dlpack(DLManagedTensor* managed, const DlpackOptions& options = {});

}  // namespace bytetape
