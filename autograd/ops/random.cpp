#include "bytetape/autograd/ops/random.h"

#include "bytetape/autograd/op.h"

namespace bytetape {

using enum AttributeType;

constexpr OpDefinition uniform__op{
    .name = "uniform_", .attributes = {{"low", number}, {"high", number}}, .family = Family::random, .writes = {"x"}};
Tensor uniform_(const Tensor& x, double low, double high, Generator& generator) {
  const Op<uniform__op> op(x, low, high);
  return overwrite(x, [&] { detail::fill_uniform(x, low, high, generator); });
}

constexpr OpDefinition normal__op{
    .name = "normal_", .attributes = {{"mean", number}, {"std", number}}, .family = Family::random, .writes = {"x"}};
Tensor normal_(const Tensor& x, double mean, double std, Generator& generator) {
  const Op<normal__op> op(x, mean, std);
  return overwrite(x, [&] { detail::fill_normal(x, mean, std, generator); });
}

}  // namespace bytetape
