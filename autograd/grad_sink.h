#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Handles the gradients of leaves in place of the engine, and knows when leaves were updated. A leaf refers to it by
/// AutogradMeta::sink. dist::DataParallel and dist::Sharded are sinks.
class GradSink {
 public:
  /// Called with a gradient of a leaf without grad() and hooks. Must store it before the end of backward. `g` has the
  /// leaf's shape and dtype, or is a dense 16-bit tensor for an f32 leaf. Unless is_sole_owner(g), read it at once.
  virtual void take(const Tensor& leaf, const Tensor& g) = 0;
  /// Called after the engine has set the leaf's grad or added to it.
  virtual void added(const Tensor& leaf) = 0;

  /// Whether its leaves are parts of tensors whose other parts are in other processes. Optimizers then call the two
  /// functions below.
  virtual bool has_parts_elsewhere() const { return false; }
  /// Called when a GradScaler has set `found_inf`, a scalar, for the gradients of this process. Must set it to the
  /// maximum over all processes.
  virtual void agree_on(const Tensor& found_inf) { static_cast<void>(found_inf); }
  /// Called after a step of an optimizer, with the leaves that have gradients.
  virtual void updated(const std::vector<Tensor>& leaves) { static_cast<void>(leaves); }

 protected:
  ~GradSink() = default;
};

}  // namespace bytetape
