#include "bytetape/nn/sequential.h"

#include <typeinfo>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/conv.h"
#include "bytetape/nn/layers.h"
#include "bytetape/nn/linear.h"
#include "bytetape/nn/norm.h"

namespace bytetape::nn {
namespace {

// Layers are known by their very class: one derived from them may have a forward of its own.

Activation activation_of(const Module& layer) {
  const std::type_info& type = typeid(layer);
  if (type == typeid(ReLU)) return Activation::relu;
  const bool is_by_tanh = type == typeid(GELU) && static_cast<const GELU&>(layer).approximate() == Approximate::tanh;
  return is_by_tanh ? Activation::gelu_tanh : Activation::none;
}

/// Calls a layer with an activation.
using Activated = Tensor (*)(Module& layer, const Tensor& x, Activation activation);

template <class Layer>
Tensor run_as(Module& layer, const Tensor& x, Activation activation) {
  return static_cast<Layer&>(layer)(x, activation);
}

/// Null where the layer does not take that activation, or it is none.
Activated activated(const Module& layer, Activation activation) {
  const std::type_info& type = typeid(layer);
  if (activation == Activation::none) return nullptr;
  if (type == typeid(Linear)) return run_as<Linear>;
  if (activation != Activation::relu) return nullptr;
  if (type == typeid(Conv2d)) return run_as<Conv2d>;
  if (type == typeid(BatchNorm1d) || type == typeid(BatchNorm2d)) return run_as<BatchNorm>;
  return nullptr;
}

std::int64_t length(const Sequential& model) { return static_cast<std::int64_t>(model.size()); }

/// What layers first to last - 1 make of x.
Tensor run_layers(Sequential& model, std::int64_t first, std::int64_t last, const Tensor& x) {
  Tensor y = x;
  for (std::int64_t i = first; i < last; ++i) {
    Module& layer = model[i];
    const Activation activation = i + 1 == last ? Activation::none : activation_of(model[i + 1]);
    const Activated run = activated(layer, activation);
    y = run ? run(layer, y, activation) : layer(y);
    if (run) ++i;
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
