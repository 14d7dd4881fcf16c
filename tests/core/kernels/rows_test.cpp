// Kernels that read a row in pieces of 256: rows shorter, as long and longer.
#include <cmath>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

constexpr std::int64_t sizes[] = {1, 7, 255, 256, 257, 600};

/// x, and a copy whose columns lie apart.
std::vector<Tensor> as_it_may_lie(const Tensor& x) {
  const Tensor apart = select(zeros({x.size(0), x.size(1), 2}, x.dtype()), 2, 0);
  copy_(apart, x);
  return {x, apart, transpose(contiguous(transpose(x, 0, 1)), 0, 1)};
}

Tensor gradient_of(const Tensor& y, Tensor leaf) {
  leaf.set_grad({});
  y.backward();
  return leaf.grad();
}

std::vector<double> softmax_of(const std::vector<double>& x) {
  double sum = 0;
  std::vector<double> p;
  for (const double v : x) sum += p.emplace_back(std::exp(v));
  for (double& v : p) v /= sum;
  return p;
}

TEST(LongRows, OfSoftmax) {
  for (const std::int64_t n : sizes)
    for (const DType dtype : {DType::f32, DType::f64})
      for (const Tensor& x : as_it_may_lie(test::random_tensor({3, n}, dtype))) {
        const double tolerance = dtype == DType::f32 ? 1e-5 : 1e-12;
        const Tensor leaf = x.detach().set_requires_grad(), y = softmax(leaf, 1), log_y = log_softmax(leaf, 1);
        const Tensor gy = test::random_tensor({3, n}, dtype);
        const Tensor g = gradient_of(sum(y * gy), leaf), log_g = gradient_of(sum(log_y * gy), leaf);
        for (std::int64_t i = 0; i < 3; ++i) {
          const std::vector<double> p = softmax_of(select(x, 0, i).to_vector<double>()),
                                    of_y = select(gy, 0, i).to_vector<double>();
          std::vector<double> log_p, expected, log_expected;
          double along = 0, total = 0;
          for (std::size_t j = 0; j < p.size(); ++j) along += p[j] * of_y[j], total += of_y[j];
          for (std::size_t j = 0; j < p.size(); ++j) {
            log_p.push_back(std::log(p[j]));
            expected.push_back(p[j] * (of_y[j] - along));
            log_expected.push_back(of_y[j] - p[j] * total);
          }
          const auto row = [&](const Tensor& t) { return select(t, 0, i).to_vector<double>(); };
          ASSERT_TRUE(test::all_close(row(y), p, tolerance, tolerance)) << n;
          ASSERT_TRUE(test::all_close(row(log_y), log_p, tolerance, tolerance)) << n;
          ASSERT_TRUE(test::all_close(row(g), expected, tolerance, tolerance)) << n;
          ASSERT_TRUE(test::all_close(row(log_g), log_expected, tolerance, 10 * tolerance)) << n;
        }
      }
}

/// The loss of a row by its definition, and its gradient.
struct Loss {
  double loss = 0;
  std::vector<double> gradient;
  Loss(const std::vector<double>& x, std::size_t target, double smoothing, const std::vector<double>& weight) {
    const auto classes = static_cast<double>(x.size());
    const std::vector<double> p = softmax_of(x);
    gradient.resize(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double share = weight[j] * ((j == target ? 1 - smoothing : 0) + smoothing / classes);
      loss -= share * std::log(p[j]);
      for (std::size_t k = 0; k < x.size(); ++k) gradient[k] += share * (p[k] - (j == k ? 1 : 0));
    }
  }
};

TEST(LongRows, OfCrossEntropy) {
  for (const std::int64_t n : sizes)
    for (const DType dtype : {DType::f32, DType::f64})
      for (const double smoothing : {0.0, 0.2})
        for (const bool is_weighted : {false, true})
          for (const Tensor& x : as_it_may_lie(test::random_tensor({4, n}, dtype))) {
            const double tolerance = dtype == DType::f32 ? 3e-5 : 1e-11;
            const std::vector<std::int64_t> target{0, n - 1, n / 2, std::min<std::int64_t>(n - 1, 256)};
            const Tensor weight = is_weighted ? rand(n, dtype) + 0.5 : Tensor();
            const Tensor leaf = x.detach().set_requires_grad(), t = from_vector(target);
            CrossEntropyOptions options{.weight = weight, .reduction = Reduction::none, .label_smoothing = smoothing};
            const Tensor y = cross_entropy(leaf, t, options), g = gradient_of(sum(y), leaf);
            const std::vector<double> losses = y.to_vector<double>(),
                                      weights = is_weighted ? weight.to_vector<double>()
                                                            : std::vector<double>(static_cast<std::size_t>(n), 1);
            for (std::size_t i = 0; i < target.size(); ++i) {
              const auto row = [&](const Tensor& of) {
                return select(of, 0, static_cast<std::int64_t>(i)).to_vector<double>();
              };
              const Loss expected(row(x), static_cast<std::size_t>(target[i]), smoothing, weights);
              ASSERT_NEAR(losses[i], expected.loss, tolerance * 10) << n << " classes, " << dtype;
              ASSERT_TRUE(test::all_close(row(g), expected.gradient, tolerance, tolerance))
                  << n << " classes, " << dtype;
            }
          }
}

}  // namespace
}  // namespace bytetape
