#pragma once
#include <functional>

#include "bytetape/autograd/node.h"

namespace bytetape {

/// Calls `pack` for each tensor that a node saves for backward, on this thread while it lives
/// (torch.autograd.graph.saved_tensors_hooks):
///
///     const SavedTensorHooks hooks([](const Tensor& x) -> SavedTensorHooks::Unpack {
///       if (x.nbytes() < 1 << 20) return nullptr;  // kept as it is
///       return [low = to(x, DType::bf16), dtype = x.dtype()] { return to(low, dtype); };
///     });
///
/// The node saves the function that `pack` returns instead of the tensor. If it is null, the node saves the tensor. The
/// function is called once, in the scope of the op that first needs the tensor. Its result lives until the node is
/// done. Ops in both functions are not recorded. `pack` is not called for leaves that require grad, nor for tensors
/// that checkpoint() drops. Of nested scopes the innermost is in effect.
/// Throws AutogradError from backward if the result differs from the tensor in shape, dtype or device.
class SavedTensorHooks {
 public:
  using Unpack = std::function<Tensor()>;
  using Pack = std::function<Unpack(const Tensor& x)>;

  /// Throws ValueError if `pack` is empty.
  [[nodiscard]] explicit SavedTensorHooks(Pack pack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

  /// Called by Saved::save: packs x and returns true, or returns false if x is to be saved as it is.
  bool takes(Saved& saved, const Tensor& x) const;

 private:
  Pack pack_;
  const SavedTensorHooks* outer_;
};

}  // namespace bytetape
