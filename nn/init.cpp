#include "bytetape/nn/init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/random.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/check.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::nn::init {
namespace {

std::int64_t receptive_field(const Tensor& x) {
  check(x.rank() >= 2, "a fan needs a weight of at least two dims, got ", describe(x));
  std::int64_t n = 1;
  for (int i = 2; i < x.rank(); ++i) n *= x.shape()[i];
  return n;
}

/// Returns the fan as a divisor. A weight without elements has fan 0.
double at_least_one(std::int64_t fan) { return static_cast<double>(std::max<std::int64_t>(fan, 1)); }

double kaiming_std(const Tensor& x, double a, FanMode mode, Nonlinearity nonlinearity) {
  return calculate_gain(nonlinearity, a) / std::sqrt(at_least_one(mode == FanMode::fan_in ? fan_in(x) : fan_out(x)));
}
/// Returns the device for host data of x: the CPU, or its meta device if x is on a meta device.
Device host_of(const Tensor& x) { return x.device().is_meta ? Device::meta() : Device::cpu(); }

/// Subtracts from each row of x its projection onto the rows of q.
void project_out(const Tensor& x, const Tensor& q) {
  if (q.size(0) > 0) x -= matmul(matmul(x, transpose(q, 0, 1)), q);
}

/// Makes the rows of q orthonormal, from first to last, with Gram-Schmidt by blocks of rows. Two passes are enough
/// (Giraud, Langou & Rozloznik 2005). The result is the Q of the decomposition whose R has a positive diagonal.
void orthonormalise_rows(const Tensor& q) {
  constexpr std::int64_t most = 64;
  for (std::int64_t first = 0; first < q.size(0); first += most) {
    const Tensor before = narrow(q, 0, 0, first), block = narrow(q, 0, first, std::min(most, q.size(0) - first));
    for (int pass = 0; pass < 2; ++pass) {
      project_out(block, before);
      for (std::int64_t i = 0; i < block.size(0); ++i) {
        const Tensor row = narrow(block, 0, i, 1);
        project_out(row, narrow(block, 0, 0, i));
        row /= sqrt(sum(row * row));
      }
    }
  }
}

}  // namespace

std::int64_t fan_in(const Tensor& x) { return receptive_field(x) * x.shape()[1]; }
std::int64_t fan_out(const Tensor& x) { return receptive_field(x) * x.shape()[0]; }

double calculate_gain(Nonlinearity nonlinearity, double negative_slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + negative_slope * negative_slope));
    case Nonlinearity::selu:
      return 0.75;
    default:
      return 1;
  }
}

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
void zeros_(Tensor& x) { constant_(x, 0); }
void ones_(Tensor& x) { constant_(x, 1); }

void kaiming_uniform_(Tensor& x, double a, FanMode mode, Nonlinearity nonlinearity, Generator& generator) {
  const memory::Op<"kaiming_uniform_"> op;
  const double bound = std::sqrt(3.0) * kaiming_std(x, a, mode, nonlinearity);
  init::uniform_(x, -bound, bound, generator);
}
void kaiming_normal_(Tensor& x, double a, FanMode mode, Nonlinearity nonlinearity, Generator& generator) {
  const memory::Op<"kaiming_normal_"> op;
  init::normal_(x, 0, kaiming_std(x, a, mode, nonlinearity), generator);
}

void xavier_uniform_(Tensor& x, double gain, Generator& generator) {
  const memory::Op<"xavier_uniform_"> op;
  const double bound = gain * std::sqrt(6.0 / at_least_one(fan_in(x) + fan_out(x)));
  init::uniform_(x, -bound, bound, generator);
}
void xavier_normal_(Tensor& x, double gain, Generator& generator) {
  const memory::Op<"xavier_normal_"> op;
  init::normal_(x, 0, gain * std::sqrt(2.0 / at_least_one(fan_in(x) + fan_out(x))), generator);
}

void orthogonal_(Tensor& x, double gain, Generator& generator) {
  const memory::Op<"orthogonal_"> op;
  check_floating(x);
  check(x.rank() >= 2, "expected at least two dims, got ", describe(x));
  if (x.numel() == 0) return;
  const NoGrad no_grad;
  const std::int64_t rows = x.size(0), columns = x.numel() / rows;
  const Tensor drawn = randn({rows, columns}, DType::f64, host_of(x), generator);
  const bool is_tall = rows > columns;
  Tensor q = is_tall ? contiguous(transpose(drawn, 0, 1)) : drawn;
  orthonormalise_rows(q);
  if (is_tall) q = transpose(q, 0, 1);
  copy_(x, reshape(q * gain, x.shape()));
}

void dirac_(Tensor& x, std::int64_t groups) {
  const memory::Op<"dirac_"> op;
  check_floating(x);
  check(x.rank() >= 3 && x.rank() <= 5, "expected a convolution's weight of rank 3 to 5, got ", describe(x));
  check<ValueError>(groups > 0 && x.size(0) % groups == 0, "groups, ", groups, ", must divide the outputs of ",
                    describe(x));
  const NoGrad no_grad;
  const std::int64_t outputs = x.size(0) / groups, inputs = x.size(1), window = receptive_field(x);
  std::int64_t middle = 0;
  for (int d = 2; d < x.rank(); ++d) middle = middle * x.shape()[d] + x.shape()[d] / 2;
  std::vector<double> values(static_cast<std::size_t>(x.numel()));
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t c = 0; c < std::min(outputs, inputs); ++c)
      if (window > 0) values[static_cast<std::size_t>(((g * outputs + c) * inputs + c) * window + middle)] = 1;
  copy_(x, from_vector(values, x.shape(), host_of(x)));
}

}  // namespace bytetape::nn::init
