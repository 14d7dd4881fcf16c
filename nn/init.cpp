#include "bytetape/nn/init.h"

#include <cmath>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/random.h"
#include "bytetape/core/factories.h"

namespace bytetape::nn::init {
namespace {

std::int64_t receptive_field(const Tensor& x) {
  check(x.rank() >= 2, "a fan needs a weight of at least two dims, got ", describe(x));
  std::int64_t n = 1;
  for (int i = 2; i < x.rank(); ++i) n *= x.shape()[i];
  return n;
}

double kaiming_std(const Tensor& x, double a) {
  return std::sqrt(2 / (1 + a * a)) / std::sqrt(static_cast<double>(fan_in(x)));
}

}  // namespace

std::int64_t fan_in(const Tensor& x) { return receptive_field(x) * x.shape()[1]; }
std::int64_t fan_out(const Tensor& x) { return receptive_field(x) * x.shape()[0]; }

void uniform_(Tensor& x, double low, double high, Generator& generator) {
  const NoGrad no_grad;
  bytetape::uniform_(x, low, high, generator);
}
void normal_(Tensor& x, double mean, double std, Generator& generator) {
  const NoGrad no_grad;
  bytetape::normal_(x, mean, std, generator);
}

void constant_(Tensor& x, Scalar value) {
  const NoGrad no_grad;
  fill_(x, value);
}

void kaiming_uniform_(Tensor& x, double a, Generator& generator) {
  const double bound = std::sqrt(3.0) * kaiming_std(x, a);
  init::uniform_(x, -bound, bound, generator);
}

void kaiming_normal_(Tensor& x, double a, Generator& generator) { init::normal_(x, 0, kaiming_std(x, a), generator); }

void xavier_uniform_(Tensor& x, double gain, Generator& generator) {
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(fan_in(x) + fan_out(x)));
  init::uniform_(x, -bound, bound, generator);
}

}  // namespace bytetape::nn::init
