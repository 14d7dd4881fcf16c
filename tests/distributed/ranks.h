#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "bytetape/distributed/distributed.h"
#include "tests/support/random.h"

namespace bytetape::test {

/// The group of all ranks of this program.
inline dist::Group world() { return dist::init(std::chrono::seconds(60)); }

/// The values that a rank passes to a collective: every rank can compute those of all.
inline Tensor values_of(int rank, const Shape& shape, DType dtype = DType::f64, const std::string& name = "values") {
  auto generator = generator_for(name, static_cast<std::uint64_t>(rank));
  std::vector<double> values = normal_values(numel(shape), generator);
  if (!is_floating(dtype))
    for (double& v : values) v = std::abs(std::round(10 * v));
  return make_tensor(values, shape, dtype);
}

/// The values of all ranks, in order.
inline std::vector<Tensor> values_of_all(const dist::Group& group, const Shape& shape, DType dtype = DType::f64,
                                         const std::string& name = "values") {
  std::vector<Tensor> all;
  for (int r = 0; r < group.size(); ++r) all.push_back(values_of(r, shape, dtype, name));
  return all;
}

/// The bits of x as numbers, for comparisons that do not round.
inline std::vector<double> elements(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace bytetape::test
