#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/sum.h"
#include "bytetape/core/integers.h"

namespace bytetape::cpu {

/// A strided run of elements of T that a kernel reads several times, in pieces of the compute type.
template <class T>
struct Row {
  using C = compute_t<T>;
  const char* data;
  std::int64_t step;  // bytes
  std::int64_t size;

  /// Calls f(index, Eigen array of values) piece by piece. `index` is that of the first element. Runs of equal size
  /// have equal pieces.
  template <class F>
  void for_each_piece(F&& f) const {
    detail::Source<T> source;
    for (std::int64_t at = 0; at < size; at += detail::chunk)
      f(at, source.load(data + at * step, step, std::min(detail::chunk, size - at)));
  }

  /// Returns the maximum. If there are NaNs it may be any element, because all results are NaN anyway.
  C max() const {
    C best = -std::numeric_limits<C>::infinity();
    for_each_piece([&](std::int64_t, const auto& x) { best = std::max<C>(best, x.maxCoeff()); });
    return best;
  }
  C sum() const {
    double total = 0;
    for_each_piece([&](std::int64_t, const auto& x) { total += static_cast<double>(sum_of(x)); });
    return static_cast<C>(total);
  }
};

/// Replaces n values by their exponentials. n is a multiple of 16, and `values` is aligned to 64 bytes, so that the
/// bits depend on the values alone.
template <class C>
void exp_vectors(C* values, std::int64_t n) {
  constexpr C smallest = 2 * std::numeric_limits<C>::min();  // just above the floor of Eigen's exp
  Eigen::Map<Array<C>, Eigen::Aligned64> whole(values, n);
  whole = whole.exp();
  for (std::int64_t i = 0; i < n; ++i) values[i] = values[i] < smallest ? C{0} : values[i];
}

/// exp of a piece, in an own buffer.
template <class C>
class ExpPiece {
 public:
  using Values = Eigen::Map<Array<C>, Eigen::Aligned64>;

  /// Returns exp(x - shift).
  Values operator()(const auto& x, C shift) {
    const std::int64_t n = x.size();
    padded_ = round_up(n, lanes);
    Values piece(values_, n);
    piece = x - shift;
    for (std::int64_t i = n; i < padded_; ++i) values_[i] = -std::numeric_limits<C>::infinity();
    exp_vectors(values_, padded_);  // whole vectors: a row of ten elements takes one
    return piece;
  }
  /// Returns the sum of the last result.
  double sum() const {
    return static_cast<double>(Eigen::Map<const Array<C>, Eigen::Aligned64>(values_, padded_).sum());
  }

 private:
  static constexpr std::int64_t lanes = 16;
  alignas(64) C values_[detail::chunk];
  std::int64_t padded_ = 0;
};

/// Returns sum(exp(x - shift)).
template <class T>
compute_t<T> sum_exp(const Row<T>& x, compute_t<T> shift) {
  ExpPiece<compute_t<T>> exp;
  double total = 0;
  x.for_each_piece([&](std::int64_t, const auto& v) {
    exp(v, shift);
    total += exp.sum();
  });
  return static_cast<compute_t<T>>(total);
}

/// y[i] = values[i]. Elements of y are `step` bytes apart.
template <class T, class E>
void store_piece(char* y, std::int64_t step, const E& values) {
  if constexpr (std::is_same_v<T, compute_t<T>>)
    if (step == sizeof(T)) {
      Eigen::Map<Array<T>>(reinterpret_cast<T*>(y), values.size()) = values;
      return;
    }
  for (std::int64_t i = 0; i < values.size(); ++i)
    *reinterpret_cast<T*>(y + i * step) = static_cast<T>(values.coeff(i));
}

/// The elements of exp-heavy work below which another thread does not pay.
inline constexpr std::int64_t exp_grain = grain / 4;

}  // namespace bytetape::cpu
