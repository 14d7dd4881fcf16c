#pragma once
#include <functional>

#include "bytetape/autograd/node.h"

namespace bytetape {

/// While it lives, on its thread, each tensor that a node would keep for backward is first given to `pack`
/// (torch.autograd.graph.saved_tensors_hooks):
///
///     const SavedTensorHooks hooks([](const Tensor& x) -> SavedTensorHooks::Unpack {
///       if (x.nbytes() < 1 << 20) return nullptr;  // kept as it is
///       return [low = to(x, DType::bf16), dtype = x.dtype()] { return to(low, dtype); };
///     });
///
/// What `pack` gives is kept in the tensor's place, and called once, when backward first needs the tensor, in the scope
/// of that; what it gives then is kept until the node is done with it. It must have the tensor's shape, dtype and
/// device: AutogradError where it has not. Null: the tensor is kept. Leaves that require grad, which last anyway, are
/// not given to `pack`, nor is what checkpoint() leaves out. Neither function is recorded. Of scopes in each other the
/// innermost counts.
class SavedTensorHooks {
 public:
  using Unpack = std::function<Tensor()>;
  using Pack = std::function<Unpack(const Tensor& x)>;

  /// Throws ValueError where `pack` is empty.
  [[nodiscard]] explicit SavedTensorHooks(Pack pack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

  /// For Saved::save: whether something is kept in x's place.
  bool takes(Saved& saved, const Tensor& x) const;

 private:
  Pack pack_;
  const SavedTensorHooks* outer_;
};

}  // namespace bytetape
