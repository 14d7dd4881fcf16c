#pragma once
#include <optional>
#include <vector>

#include "bytetape/core/device/stream.h"
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

  /// The relation of a leaf to other processes.
  enum class Place {
    here,     ///< the leaf is of this process alone
    part,     ///< an optimizer updates the leaf, and other processes the other parts of a tensor
    divided,  ///< optimizers update parts of the leaf, in its place
  };
  virtual Place place_of_leaf(const Tensor& leaf) const {
    static_cast<void>(leaf);
    return Place::here;
  }

  /// Returns a stream that may still write grad() of the leaf after backward(). A step then updates other leaves first,
  /// and waits for that stream. Default: none.
  virtual std::optional<Stream> late_on(const Tensor& leaf) const {
    static_cast<void>(leaf);
    return std::nullopt;
  }

  // Optimizers call these functions of the sinks of parts.

  /// Called before a step of an optimizer reads parts.
  virtual void before_update() {}
  /// Called when a GradScaler has set `found_inf`, a scalar, for the gradients of this process. Must set it to the
  /// maximum over all processes.
  virtual void agree_on(const Tensor& found_inf) { static_cast<void>(found_inf); }
  /// Called after a step of an optimizer, with all of its leaves that have gradients.
  virtual void updated(const std::vector<Tensor>& leaves) { static_cast<void>(leaves); }

 protected:
  ~GradSink() = default;
};

namespace detail {
/// Whether the gradient of x, an f32 leaf, may have `dtype`, one of 16 bits: x is a part, whose sink uses both.
bool may_have_narrow_gradient(const Tensor& x, DType dtype);
}  // namespace detail

}  // namespace bytetape
