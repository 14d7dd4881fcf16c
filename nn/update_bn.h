#pragma once
#include <concepts>
#include <utility>
#include <vector>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/nn/norm.h"

namespace bytetape::nn {

/// Scope in which a model is in training mode and each BatchNorm averages the statistics of all batches that it sees.
///
/// The average starts with the first batch in the scope. The end restores modes and momenta. update_bn() uses this
/// class.
class BatchNormUpdate {
 public:
  /// Throws CaptureError if a step is being captured, because a replay would repeat the weight of one batch.
  explicit BatchNormUpdate(Module& model);
  ~BatchNormUpdate();
  BatchNormUpdate(const BatchNormUpdate&) = delete;
  BatchNormUpdate& operator=(const BatchNormUpdate&) = delete;
  /// Returns true if the model has no BatchNorm with running statistics.
  bool is_empty() const { return norms_.empty(); }

 private:
  std::vector<std::pair<Module*, bool>> modes_;  // parents before children
  std::vector<BatchNorm*> norms_;
};

/// Replaces the running statistics of each BatchNorm in `model` by averages over the batches of `loader`
/// (torch.optim.swa_utils.update_bn).
///
/// Use it for a model whose parameters were replaced, such as by averages:
///
///     ema.copy_to(averaged);                // copies parameters, but not the statistics of batch norm
///     nn::update_bn(train_loader, averaged);
///
/// `forward(batch)` runs the model on each element of one epoch of `loader`. The model is in training mode, and
/// gradients are not recorded. All batches have the same weight, as in PyTorch. Modes and momenta are restored. A model
/// without running statistics does not use the loader. A BatchNorm that sees no batch keeps its statistics.
///
/// Throws ValueError if the loader has no batch.
/// Exceptions from `forward` pass through.
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

/// Replaces the running statistics by calling model(x). An element of the loader is x itself, or has a member x.
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
