#include "bytetape/nn/sequential.h"

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/fusion.h"

namespace bytetape::nn {
namespace {

std::int64_t length(const Sequential& model) { return static_cast<std::int64_t>(model.size()); }

/// Runs layers first to last - 1 on x, and those that can be fused as one op.
Tensor run_layers(Sequential& model, std::int64_t first, std::int64_t last, const Tensor& x) {
  const auto role_of = [&](std::int64_t i) { return i < last ? model[i].fusion_role() : FusionRole(); };
  Tensor y = x;
  for (std::int64_t i = first; i < last; ++i) {
    const FusionRole role = role_of(i), next = role_of(i + 1);
    const Activation activation = next.activation();
    if (role_of(i + 2).takes_before(activation)) {  // needs less memory than the layer with the activation
      y = model[i](y);
      y = role_of(i + 2).run(model[i + 2], y, activation);
      i += 2;
    } else if (role.takes(activation)) {
      y = role.run(model[i], y, activation);
      ++i;
    } else {
      y = role.reorders_for(next) ? role.run(model[i], y, Activation::none) : model[i](y);
    }
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
