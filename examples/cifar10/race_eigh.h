#pragma once
#include <bytetape/core/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace bytetape::examples {

/// The eigenvalues of a symmetric matrix, ascending, and eigenvectors of unit length: vectors[i] belongs to values[i].
struct Eigh {
  std::vector<double> values;
  std::vector<std::vector<double>> vectors;
};

namespace jacobi {

struct Square {
  std::vector<double> elements;
  std::size_t n;
  double& operator()(std::size_t i, std::size_t j) { return elements[i * n + j]; }
};

/// A rotation by the smaller angle that makes element (p, q) of a symmetric matrix 0.
struct Rotation {
  double cosine, sine;
  Rotation(double pp, double pq, double qq) {
    const double tau = (qq - pp) / (2 * pq);
    const double tangent = (tau < 0 ? -1 : 1) / (std::abs(tau) + std::hypot(1, tau));
    cosine = 1 / std::hypot(1, tangent);
    sine = tangent * cosine;
  }
  void turn(double& x, double& y) const {
    const double before = x;
    x = cosine * before - sine * y;
    y = sine * before + cosine * y;
  }
};

/// Rotates a = r^T a r and v = v r so that a(p, q) = 0.
inline void rotate(Square& a, Square& v, std::size_t p, std::size_t q) {
  if (a(p, q) == 0) return;
  const Rotation r(a(p, p), a(p, q), a(q, q));
  for (std::size_t k = 0; k < a.n; ++k) r.turn(a(k, p), a(k, q));
  for (std::size_t k = 0; k < a.n; ++k) r.turn(a(p, k), a(q, k));
  for (std::size_t k = 0; k < a.n; ++k) r.turn(v(k, p), v(k, q));
  a(p, q) = a(q, p) = 0;
}

}  // namespace jacobi

/// Computes the eigenvalues and eigenvectors of a symmetric matrix (n, n), row-major, on the host (torch.linalg.eigh).
/// Reads only the elements on and above the diagonal. Use it for small matrices, as its time grows with n^3.
/// Uses Jacobi's cyclic method (Golub and Van Loan, "Matrix computations", section 8.5).
/// Throws ShapeError if `matrix` does not have n * n elements.
inline Eigh eigh(std::vector<double> matrix, std::size_t n) {
  check(matrix.size() == n * n, "eigh: expected ", n, " x ", n, " elements, got ", matrix.size());
  jacobi::Square a{std::move(matrix), n}, v{std::vector<double>(n * n), n};
  for (std::size_t i = 0; i < n; ++i) {
    v(i, i) = 1;
    for (std::size_t j = 0; j < i; ++j) a(i, j) = a(j, i);
  }
  constexpr int sweeps = 30;  // it converges quadratically, in fewer than ten
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) jacobi::rotate(a, v, p, q);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return a(i, i); });
  Eigh result;
  for (const std::size_t i : order) {
    result.values.push_back(a(i, i));
    std::vector<double>& vector = result.vectors.emplace_back();
    for (std::size_t k = 0; k < n; ++k) vector.push_back(v(k, i));
  }
  return result;
}

}  // namespace bytetape::examples
