#pragma once
#include <cmath>

#include "bytetape/core/cpu/elementwise.h"

namespace bytetape::cpu {

/// A strided run of elements of T that a kernel reads more than once, a piece at a time, in the type it computes in.
template <class T>
struct Row {
  using C = compute_t<T>;
  const char* data;
  std::int64_t step;  // bytes
  std::int64_t size;

  /// f(index of the first, Eigen array of values), piece by piece. Pieces are the same for equal sizes.
  template <class F>
  void for_each_piece(F&& f) const {
    detail::Source<T> source;
    for (std::int64_t at = 0; at < size; at += detail::chunk)
      f(at, source.load(data + at * step, step, std::min(detail::chunk, size - at)));
  }

  /// NaN wins. The row is not empty.
  C max() const {
    C best = -std::numeric_limits<C>::infinity();
    for_each_piece([&](std::int64_t, const auto& x) {
      const C largest = x.template maxCoeff<Eigen::PropagateNaN>();
      if (largest > best || largest != largest) best = largest;
    });
    return best;
  }
  C sum() const {
    double total = 0;
    for_each_piece([&](std::int64_t, const auto& x) { total += static_cast<double>(x.sum()); });
    return static_cast<C>(total);
  }
};

/// exp of a piece, in a buffer of its own.
template <class C>
class ExpPiece {
 public:
  /// exp(x - shift).
  Eigen::Map<Array<C>> operator()(const auto& x, C shift) {
    const std::int64_t n = x.size(), padded = (n + lanes - 1) / lanes * lanes;
    for (std::int64_t i = n; i < padded; ++i) values_[i] = 0;
    Eigen::Map<Array<C>> piece(values_, n), whole(values_, padded);  // whole vectors: a row of ten takes one
    piece = x - shift;
    whole = (whole < underflow).select(C{0}, whole.exp());  // Eigen's exp stops short of 0
    return piece;
  }

 private:
  static constexpr std::int64_t lanes = 16;
  static constexpr C underflow = sizeof(C) == 4 ? C(-87) : C(-708);
  alignas(64) C values_[detail::chunk];
};

/// sum(exp(x - shift)).
template <class T>
compute_t<T> sum_exp(const Row<T>& x, compute_t<T> shift) {
  ExpPiece<compute_t<T>> exp;
  double total = 0;
  x.for_each_piece([&](std::int64_t, const auto& v) { total += static_cast<double>(exp(v, shift).sum()); });
  return static_cast<compute_t<T>>(total);
}

/// y[i] = values[i], `step` bytes apart.
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

/// Elements of exp-heavy work below which another thread does not pay.
inline constexpr std::int64_t exp_grain = grain / 4;

}  // namespace bytetape::cpu
