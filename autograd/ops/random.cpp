#include "bytetape/autograd/ops/random.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/scan.h"
#include "bytetape/autograd/ops/sort.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/random.h"

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

namespace {

Tensor random_numbers(std::int64_t rows, std::int64_t columns, Device device, Generator& generator) {
  const Tensor u = empty({rows, columns}, DType::f64, device);
  detail::fill_uniform(u, 0, 1, generator);
  return u;
}

/// The places drawn from p (rows, n), which is f64 and row-major.
Tensor draw_with_replacement(const Tensor& p, std::int64_t k, Generator& generator) {
  const Tensor u = random_numbers(p.size(0), k, p.device(), generator), cumulative = cumsum(p, 1);
  const Tensor y = empty(u.shape(), DType::i64, p.device());
  run<&RandomKernels::multinomial>(p.device(), MultinomialArgs{p.read(), cumulative.read(), u.read(), y.write()});
  return y;
}
Tensor draw_without_replacement(const Tensor& p, std::int64_t k, Generator& generator) {
  const Tensor u = random_numbers(p.size(0), p.size(1), p.device(), generator);
  run<&RandomKernels::multinomial_race>(p.device(), MultinomialRaceArgs{p.read(), k, u.write()});
  return topk(u, k).indices;
}

}  // namespace

constexpr OpDefinition multinomial_op{.name = "multinomial",
                                      .inputs = {"probabilities"},
                                      .attributes = {{"num_samples", integer}, {"replacement", boolean}},
                                      .family = Family::random};
Tensor multinomial(const Tensor& probabilities, std::int64_t num_samples, bool replacement, Generator& generator) {
  const Op<multinomial_op> op(probabilities, num_samples, replacement);
  check_floating(probabilities);
  const int rank = probabilities.rank();
  check(rank == 1 || rank == 2, "expected probabilities (n) or (rows, n), got ", describe(probabilities));
  const std::int64_t n = probabilities.size(-1);
  check(n > 0, "there is nothing to draw from in ", describe(probabilities));
  check<ValueError>(num_samples > 0, "num_samples must be positive, got ", num_samples);
  check<ValueError>(replacement || num_samples <= n, "cannot draw ", num_samples,
                    " places without replacement from rows of ", n);
  const Tensor rows = contiguous(to(probabilities.detach(), DType::f64));
  const Tensor p = view(rows, {probabilities.numel() / n, n});
  const Tensor y = replacement ? draw_with_replacement(p, num_samples, generator)
                               : draw_without_replacement(p, num_samples, generator);
  return op.result(rank == 1 ? view(y, num_samples) : y);
}

}  // namespace bytetape
