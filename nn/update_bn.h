#pragma once
#include <concepts>
#include <utility>
#include <vector>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/nn/norm.h"

namespace bytetape::nn {

/// While it lives, a model trains (Module::train), and every BatchNorm in it averages the statistics of all batches
/// that it sees, from the first of them on. Then modes and momenta are as they were. What update_bn() is made of.
class BatchNormUpdate {
 public:
  /// Throws CaptureError in a step that is being captured: a replay would repeat the weight of one batch.
  explicit BatchNormUpdate(Module& model);
  ~BatchNormUpdate();
  BatchNormUpdate(const BatchNormUpdate&) = delete;
  BatchNormUpdate& operator=(const BatchNormUpdate&) = delete;
  /// True if the model has no BatchNorm with running statistics.
  bool is_empty() const { return norms_.empty(); }

 private:
  std::vector<std::pair<Module*, bool>> modes_;  // parents before children
  std::vector<BatchNorm*> norms_;
};

/// Replaces the running statistics of every BatchNorm in `model` by averages over the batches of `loader`
/// (torch.optim.swa_utils.update_bn). Call it for a model whose parameters were replaced, such as by averages:
///
///     ema.copy_to(averaged);                // the parameters; batch norm's statistics are another model's still
///     nn::update_bn(train_loader, averaged);
///
/// `forward(batch)` runs the model on each element of the loader: the model is in training mode, nothing is recorded,
/// and each batch counts alike, as in PyTorch. Modes and momenta are restored. Goes through one epoch of the loader; a
/// model without running statistics leaves the loader alone. Throws ValueError if the loader has no batch, and what
/// `forward` throws; a BatchNorm that has normalised no batch by then keeps its statistics.
template <class Loader, std::invocable<decltype(*std::declval<Loader&>().begin())> Forward>
void update_bn(Loader&& loader, Module& model, Forward&& forward) {
  const BatchNormUpdate update(model);
  if (update.is_empty()) return;
  const NoGrad no_grad;
  bool has_batch = false;
  for (auto&& batch : loader) {
    has_batch = true;
    forward(batch);
  }
  check<ValueError>(has_batch, "update_bn: the loader has no batch");
}

/// The same by model(x), where an element of the loader is x itself, or has a member x.
template <class Loader>
void update_bn(Loader&& loader, Module& model) {
  update_bn(loader, model, [&model](const auto& batch) {
    if constexpr (std::convertible_to<decltype(batch), const Tensor&>)
      model(batch);
    else
      model(batch.x);
  });
}

}  // namespace bytetape::nn
