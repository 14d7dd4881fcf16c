#include "bytetape/nn/sequential.h"

#include <typeinfo>

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
Tensor call(Module& layer, const Tensor& x, Activation activation) {
  return static_cast<Layer&>(layer)(x, activation);
}

/// Null where the layer does not take that activation, or it is none.
Activated activated(const Module& layer, Activation activation) {
  const std::type_info& type = typeid(layer);
  if (activation == Activation::none) return nullptr;
  if (type == typeid(Linear)) return call<Linear>;
  if (activation != Activation::relu) return nullptr;
  if (type == typeid(Conv2d)) return call<Conv2d>;
  if (type == typeid(BatchNorm1d) || type == typeid(BatchNorm2d)) return call<BatchNorm>;
  return nullptr;
}

}  // namespace

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Iterator layer = begin(); layer != end(); ++layer) {
    Iterator next = layer;
    ++next;
    const Activation activation = next == end() ? Activation::none : activation_of(*next);
    const Activated run = activated(*layer, activation);
    y = run ? run(*layer, y, activation) : (*layer)(y);
    if (run) layer = next;
  }
  return y;
}

}  // namespace bytetape::nn
