#include "bytetape/autograd/saved_tensor_hooks.h"

#include <utility>

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/error.h"

namespace bytetape {
namespace {

using detail::autograd_ambient;

/// Holds the Unpack function in place of one saved tensor.
class Packed final : public detail::SavedPlaceholder {
 public:
  Packed(SavedTensorHooks::Unpack unpack, Saved& saved, const Tensor& x)
      : unpack_(std::move(unpack)), saved_(saved), looks_{x.shape(), x.dtype(), x.device()} {}
  void stand_for(const Tensor& x) { substitute(saved_, x); }

  void bring_back() override {
    const NoGrad no_grad;
    const Tensor x = unpack_();
    check<AutogradError>(
        x.defined() && x.shape() == looks_.shape && x.dtype() == looks_.dtype && x.device() == looks_.device,
        "a hook for saved tensors gave back ", bytetape::describe(x), ", where it was given ", looks_.dtype,
        looks_.shape, " on ", looks_.device);
    put_back(saved_, x, x.storage().version());
  }
  void forget(const Saved&) override { unpack_ = nullptr; }

 private:
  SavedTensorHooks::Unpack unpack_;
  Saved& saved_;  // owns this
  const OutputInfo looks_;
};

}  // namespace

SavedTensorHooks::SavedTensorHooks(Pack pack) : pack_(std::move(pack)), outer_(autograd_ambient.saved_tensor_hooks) {
  check<ValueError>(static_cast<bool>(pack_), "SavedTensorHooks: pack must be callable");
  autograd_ambient.saved_tensor_hooks = this;
}
SavedTensorHooks::~SavedTensorHooks() { autograd_ambient.saved_tensor_hooks = outer_; }

bool SavedTensorHooks::takes(Saved& saved, const Tensor& x) const {
  if (x.is_leaf() && x.requires_grad()) return false;
  const NoGrad no_grad;
  Unpack unpack = pack_(x);
  if (!unpack) return false;
  make_ref<Packed>(std::move(unpack), saved, x)->stand_for(x);
  return true;
}

}  // namespace bytetape
