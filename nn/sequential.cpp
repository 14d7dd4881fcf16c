#include "bytetape/nn/sequential.h"

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/fusion.h"

namespace bytetape::nn {
namespace {

std::int64_t length(const Sequential& model) { return static_cast<std::int64_t>(model.size()); }

/// Runs layers first to last - 1 on x. A layer and the activation behind it run as one op if the layer supports that.
Tensor run_layers(Sequential& model, std::int64_t first, std::int64_t last, const Tensor& x) {
  Tensor y = x;
  for (std::int64_t i = first; i < last; ++i) {
    Module& layer = model[i];
    const Activation activation = i + 1 == last ? Activation::none : model[i + 1].fusion_role().activation();
    const FusionRole role = activation == Activation::none ? FusionRole() : layer.fusion_role();
    const bool fuses = role.takes(activation);
    y = fuses ? role.run(layer, y, activation) : layer(y);
    if (fuses) ++i;
  }
  return y;
}

}  // namespace

Tensor Sequential::forward(const Tensor& x) { return run_layers(*this, 0, length(*this), x); }

Tensor checkpoint_sequential(Sequential& model, std::int64_t segments, const Tensor& input) {
  const Call call(model);
  check<ValueError>(segments >= 1 && segments <= length(model), "checkpoint_sequential: expected 1 to ", length(model),
                    " segments, one for each layer at most, got ", segments);
  const std::int64_t layers = length(model) / segments, tail = layers * (segments - 1);
  Tensor y = input;
  for (std::int64_t i = 0; i < tail; i += layers)
    y = checkpoint([&model, i, layers](const Tensor& x) { return run_layers(model, i, i + layers, x); }, y);
  return run_layers(model, tail, length(model), y);
}

}  // namespace bytetape::nn
