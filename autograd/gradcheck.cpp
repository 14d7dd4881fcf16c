#include "bytetape/autograd/gradcheck.h"

#include <cmath>
#include <random>
#include <sstream>
#include <utility>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

using Values = std::vector<double>;
using TensorsFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Weights are at least 0.5 in magnitude. A weight near 0 would hide a wrong gradient.
Values draw_weights(std::int64_t n, std::mt19937_64& generator) {
  std::uniform_real_distribution<double> magnitude(0.5, 1.5);
  Values weights(static_cast<std::size_t>(n));
  for (double& w : weights) w = (generator() & 1) ? magnitude(generator) : -magnitude(generator);
  return weights;
}

void write(const Tensor& x, const Values& values) {
  const ConstView source(values.data(), DType::f64, Device::cpu(), x.shape(), contiguous_strides(x.shape()));
  copy_across(source, x.write());
}

void check_input(const Tensor& x, std::size_t i) {
  check<AutogradError>(x.is_leaf(), "gradcheck: input ", i, " is not a leaf");
  check<DTypeError>(x.dtype() == DType::f64, "gradcheck: input ", i, ", ", describe(x),
                    ", must be f64 for central differences");
  for (int d = 0; d < x.rank(); ++d)
    check<ValueError>(x.shape()[d] < 2 || x.strides()[d] != 0, "gradcheck: elements of input ", i,
                      " share memory; expand it inside the function");
}

struct Checker {
  const TensorsFunction& fn;
  const std::vector<Tensor>& inputs;
  const GradcheckOptions& options;
  std::vector<Values> weights;

  double weighted_sum() const {
    const std::vector<Tensor> y = fn(inputs);
    double sum = 0;
    for (std::size_t j = 0; j < y.size(); ++j) {
      const Values values = y[j].to_vector<double>();
      for (std::size_t k = 0; k < values.size(); ++k) sum += weights[j][k] * values[k];
    }
    return sum;
  }

  // Returns the gradient of weighted_sum() from the tape, by input. It is zero if the outputs do not depend on the
  // input.
  std::vector<Values> analytic(const std::vector<Tensor>& checked) {
    std::mt19937_64 generator(options.weights_seed);
    std::vector<Tensor> y = fn(inputs), outputs, seeds;
    for (const Tensor& t : y) {
      weights.push_back(draw_weights(t.numel(), generator));
      if (!t.requires_grad()) continue;
      outputs.push_back(t);
      seeds.push_back(empty_like(t));
      write(seeds.back(), weights.back());
    }
    std::vector<Tensor> grads(checked.size());
    if (!outputs.empty()) grads = grad(outputs, checked, {.seeds = seeds, .allow_unused = true});
    std::vector<Values> values;
    for (std::size_t i = 0; i < grads.size(); ++i)
      values.push_back(grads[i].defined() ? grads[i].to_vector<double>()
                                          : Values(static_cast<std::size_t>(checked[i].numel())));
    return values;
  }

  Values numeric(const Tensor& x) const {
    const Values before = x.to_vector<double>();
    Values moved = before, result(before.size());
    for (std::size_t k = 0; k < before.size(); ++k) {
      moved[k] = before[k] + options.eps;
      write(x, moved);
      const double above = weighted_sum();
      moved[k] = before[k] - options.eps;
      write(x, moved);
      result[k] = (above - weighted_sum()) / (2 * options.eps);
      moved[k] = before[k];
    }
    write(x, before);
    return result;
  }
};

Dims index_of(std::int64_t flat, const Shape& shape) {
  Dims index = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

GradcheckResult check_all(const TensorsFunction& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  std::vector<Tensor> checked;
  std::vector<std::size_t> position;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    check_input(inputs[i], i);
    checked.push_back(inputs[i]);
    position.push_back(i);
  }
  check<AutogradError>(!checked.empty(), "gradcheck: no input requires grad");
  Checker checker{fn, inputs, options, {}};
  const std::vector<Values> analytic = checker.analytic(checked);
  const double once = checker.weighted_sum(), again = checker.weighted_sum();
  check<ValueError>(once == again || (once != once && again != again),
                    "gradcheck: the function gives other values for the same inputs");
  GradcheckResult result;
  double worst = -1;
  for (std::size_t i = 0; i < checked.size(); ++i) {
    const Values numeric = checker.numeric(checked[i]);
    for (std::size_t k = 0; k < numeric.size(); ++k) {
      const double a = analytic[i][k], n = numeric[k];
      double excess = std::abs(a - n) / (options.atol + options.rtol * std::abs(n));
      if (std::isnan(excess)) excess = HUGE_VAL;
      if (excess <= worst) continue;
      worst = excess;
      result.ok = excess <= 1;
      result.message =
          detail::concat("input ", position[i], " at ", index_of(static_cast<std::int64_t>(k), checked[i].shape()),
                         ": analytic ", a, ", numeric ", n, ", ", excess, " times the tolerance");
    }
  }
  return result;
}

}  // namespace

GradcheckResult gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  return check_all([&fn](const std::vector<Tensor>& x) { return std::vector<Tensor>{fn(x)}; }, inputs, options);
}

GradcheckResult gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options) {
  const Tensor y = fn(inputs);
  std::mt19937_64 generator(options.weights_seed + 1);
  Tensor seed = empty_like(y.detach());
  write(seed, draw_weights(y.numel(), generator));
  std::vector<Tensor> all = inputs;
  all.push_back(seed.set_requires_grad());
  const TensorsFunction gradients = [&fn](const std::vector<Tensor>& x) {
    const std::vector<Tensor> original(x.begin(), x.end() - 1);
    std::vector<Tensor> wanted, defined;
    for (const Tensor& t : original)
      if (t.requires_grad()) wanted.push_back(t);
    for (Tensor& g : grad({fn(original)}, wanted, {.seeds = {x.back()}, .create_graph = true, .allow_unused = true}))
      if (g.defined()) defined.push_back(std::move(g));
    return defined;
  };
  return check_all(gradients, all, options);
}

}  // namespace bytetape
