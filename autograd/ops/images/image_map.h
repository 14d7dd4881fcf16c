#pragma once
/// \file
/// Helpers that build ops whose result is an image, and linear in the image x.
#include <tuple>

#include "bytetape/autograd/op.h"
#include "bytetape/core/images/image_format.h"

namespace bytetape {

/// Runs a linear map of images (n, c, h, w). One kernel maps x to y, and another maps gy to gx. Each is the backward
/// rule of the other. Saves nothing. The result keeps x's memory format.
template <const OpDefinition& definition, auto Kernel, const OpDefinition& backward_definition, auto BackwardKernel,
          class... Params>
struct ImageMap {
  Shape x_shape, y_shape;
  MemoryFormat format = image_format;
  std::tuple<Params...> params;

  Tensor operator()(const Tensor& x) const {
    const Op<definition> op(x);
    return apply<Kernel, Backward>(x, y_shape);
  }
  Tensor backward(const Tensor& gy) const {
    const Op<backward_definition> op(gy);
    return apply<BackwardKernel, BackwardBackward>(gy, x_shape);
  }

 private:
  struct Backward final : Node {
    ImageMap map;
    void backward(const Grads& gy, InputGrads& gx) override { gx[0] = map.backward(gy[0]); }
  };
  struct BackwardBackward final : Node {
    ImageMap map;
    void backward(const Grads& ggx, InputGrads& ggy) override { ggy[0] = map(ggx[0]); }
  };

  template <auto TheKernel, class Rule>
  Tensor apply(const Tensor& from, const Shape& shape) const {
    Tensor made = empty(shape, format, from.dtype(), from.device());
    std::apply([&](const Params&... p) { run<TheKernel>(from.device(), from.read(), p..., made.write()); }, params);
    if (auto* node = record<Rule>(made, from)) node->map = *this;
    return made;
  }
};

}  // namespace bytetape
