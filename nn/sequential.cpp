#include "bytetape/nn/sequential.h"

namespace bytetape::nn {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Module& layer : *this) y = layer(y);
  return y;
}

}  // namespace bytetape::nn
