#include "bytetape/core/cpu/multinomial.h"

#include <algorithm>
#include <cmath>

#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/device/fault.h"
#include "bytetape/core/multinomial.h"

namespace bytetape::cpu {
namespace {

/// Throws a fault if a row has an element that is no weight, or fewer than `least` positive ones.
void check_rows(const ConstView& p, std::int64_t least) {
  const std::int64_t n = p.shape[1];
  for (std::int64_t i = 0; i < p.shape[0]; ++i) {
    const double *row = p.as<double>() + i * n, *end = row + n;
    if (!std::all_of(row, end, is_weight) || std::count_if(row, end, [](double v) { return v > 0; }) < least)
      throw_fault({Fault::Kind::probabilities, i, least});
  }
}

}  // namespace

void multinomial(const MultinomialArgs& a) {
  check_rows(a.p, 1);
  const std::int64_t n = a.p.shape[1], k = a.y.shape[1];
  parallel_for(a.y.numel(), grain / 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / k * n;
      a.y.as<std::int64_t>()[i] =
          drawn_place(a.p.as<double>() + row, a.cumulative.as<double>() + row, n, a.u.as<double>()[i]);
    }
  });
}

void multinomial_race(const MultinomialRaceArgs& a) {
  check_rows(a.p, a.k);
  parallel_for(a.p.numel(), grain / 4, [&](std::int64_t begin, std::int64_t end) {
    const auto* p = a.p.as<double>();
    auto* u = a.u.as<double>();
    for (std::int64_t i = begin; i < end; ++i)
      u[i] = p[i] > 0 ? std::max(std::log(1 - u[i]) / p[i], least_key) : last_key;
  });
}

}  // namespace bytetape::cpu
