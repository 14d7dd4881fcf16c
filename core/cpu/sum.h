#pragma once
#include <Eigen/Core>

namespace bytetape::cpu {

/// Returns the sum of an array expression, in an order that depends on its size alone. Eigen's sum starts at an aligned
/// address, so a view and its copy could have different bits.
template <class E>
typename E::Scalar sum_of(const E& values) {
  using C = typename E::Scalar;
  constexpr Eigen::Index lanes = 32;
  const Eigen::Index n = values.size();
  C total = 0;
  Eigen::Index i = 0;
  if (n >= lanes) {
    Eigen::Array<C, lanes, 1> sums = values.template segment<lanes>(0);
    for (i = lanes; i + lanes <= n; i += lanes) sums += values.template segment<lanes>(i);
    total = sums.sum();
  }
  for (; i < n; ++i) total += values.coeff(i);
  return total;
}

}  // namespace bytetape::cpu
