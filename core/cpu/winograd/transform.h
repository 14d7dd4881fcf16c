#pragma once

// One-dimensional transforms of Winograd's convolution F(4, 3): four results of a filter of three taps from six inputs
// and six products (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). A polynomial is
// evaluated at 0, a, -a, b, -b and infinity. With a = 5/8 and b = 3/2, which float represents exactly, errors are half
// of those with 1 and 2.
//
// V is a vector of floats. The transforms of gradients are the transposes of those of values.
namespace bytetape::cpu::winograd {

inline constexpr int results = 4, taps = 3, points = results + taps - 1, products = points * points;

inline constexpr float a = 0.625F, b = 1.5F, a2 = a * a, b2 = b * b, a3 = a2 * a, b3 = b2 * b;
/// The products of the differences of a point and the others.
inline constexpr float at_0 = a2 * b2, at_a = 2 * a2 * (a2 - b2), at_b = 2 * b2 * (b2 - a2);

/// Sets the values at two opposite points from the even and the odd powers of a polynomial.
template <class V>
void set_opposite(const V& even, const V& odd, V& at_plus, V& at_minus) {
  at_plus = even + odd;
  at_minus = even - odd;
}

/// The sums and differences of values at opposite points.
template <class V>
struct Opposite {
  V sum_a, difference_a, sum_b, difference_b;
  explicit Opposite(const V (&x)[points])
      : sum_a(x[1] + x[2]), difference_a(x[1] - x[2]), sum_b(x[3] + x[4]), difference_b(x[3] - x[4]) {}
};

/// Evaluates the inputs of four results.
struct InputTransform {
  static constexpr int from = points, to = points;
  template <class V>
  void operator()(const V (&x)[from], V (&y)[to]) const {
    const V even_a = x[4] - b2 * x[2], odd_a = a * (x[3] - b2 * x[1]);
    const V even_b = x[4] - a2 * x[2], odd_b = b * (x[3] - a2 * x[1]);
    y[0] = at_0 * x[0] - (a2 + b2) * x[2] + x[4];
    set_opposite(even_a, odd_a, y[1], y[2]);
    set_opposite(even_b, odd_b, y[3], y[4]);
    y[5] = at_0 * x[1] - (a2 + b2) * x[3] + x[5];
  }
};

/// Evaluates a filter.
struct WeightTransform {
  static constexpr int from = taps, to = points;
  template <class V>
  void operator()(const V (&x)[from], V (&y)[to]) const {
    const V even_a = 1 / at_a * x[0] + a2 / at_a * x[2], odd_a = a / at_a * x[1];
    const V even_b = 1 / at_b * x[0] + b2 / at_b * x[2], odd_b = b / at_b * x[1];
    y[0] = 1 / at_0 * x[0];
    set_opposite(even_a, odd_a, y[1], y[2]);
    set_opposite(even_b, odd_b, y[3], y[4]);
    y[5] = x[2];
  }
};

/// Makes four results from six products.
struct ResultTransform {
  static constexpr int from = points, to = results;
  template <class V>
  void operator()(const V (&x)[from], V (&y)[to]) const {
    const Opposite<V> o(x);
    y[0] = x[0] + o.sum_a + o.sum_b;
    y[1] = a * o.difference_a + b * o.difference_b;
    y[2] = a2 * o.sum_a + b2 * o.sum_b;
    y[3] = a3 * o.difference_a + b3 * o.difference_b + x[5];
  }
};

/// The transpose of ResultTransform.
struct ResultGradTransform {
  static constexpr int from = results, to = points;
  template <class V>
  void operator()(const V (&x)[from], V (&y)[to]) const {
    const V even_a = x[0] + a2 * x[2], odd_a = a * x[1] + a3 * x[3];
    const V even_b = x[0] + b2 * x[2], odd_b = b * x[1] + b3 * x[3];
    y[0] = x[0];
    set_opposite(even_a, odd_a, y[1], y[2]);
    set_opposite(even_b, odd_b, y[3], y[4]);
    y[5] = x[3];
  }
};

/// The transpose of WeightTransform.
struct WeightGradTransform {
  static constexpr int from = points, to = taps;
  template <class V>
  void operator()(const V (&x)[from], V (&y)[to]) const {
    const Opposite<V> o(x);
    y[0] = 1 / at_0 * x[0] + 1 / at_a * o.sum_a + 1 / at_b * o.sum_b;
    y[1] = a / at_a * o.difference_a + b / at_b * o.difference_b;
    y[2] = a2 / at_a * o.sum_a + b2 / at_b * o.sum_b + x[5];
  }
};

/// Computes y = t(t(x)^T)^T: transforms the columns and then the rows of x.
template <class T, class V>
void transform(const V (&x)[T::from][T::from], V (&y)[T::to][T::to]) {
  V columns[T::from][T::to];
#pragma GCC unroll 8
  for (int j = 0; j < T::from; ++j) {
    V column[T::from];
#pragma GCC unroll 8
    for (int i = 0; i < T::from; ++i) column[i] = x[i][j];
    T()(column, columns[j]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < T::to; ++i) {
    V row[T::from];
#pragma GCC unroll 8
    for (int j = 0; j < T::from; ++j) row[j] = columns[j][i];
    T()(row, y[i]);
  }
}

}  // namespace bytetape::cpu::winograd
