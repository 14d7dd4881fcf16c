#include "bytetape/autograd/ops/random.h"

#include "bytetape/autograd/op.h"

namespace bytetape {

Tensor uniform_(const Tensor& x, double low, double high, Generator& generator) {
  const Op<"uniform_"> op;
  return overwrite(x, [&] { detail::fill_uniform(x, low, high, generator); });
}

Tensor normal_(const Tensor& x, double mean, double std, Generator& generator) {
  const Op<"normal_"> op;
  return overwrite(x, [&] { detail::fill_normal(x, mean, std, generator); });
}

}  // namespace bytetape
