#pragma once
#include <functional>
#include <vector>

#include "bytetape/core/shape.h"

namespace bytetape::test {

/// A tensor as plain doubles, row-major: what references are computed on.
struct Array {
  Shape shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(const Shape& s, double value = 0) : shape(s), values(static_cast<std::size_t>(numel(s)), value) {}
  Array(const Shape& s, std::vector<double> v) : shape(s), values(std::move(v)) {}

  /// The element at `index`, as NumPy broadcasts: extra leading dims do not count, dims of size 1 repeat.
  double operator()(const Dims& index) const { return values[place(index)]; }
  double& operator()(const Dims& index) { return values[place(index)]; }
  std::int64_t size(int dim) const { return shape[dim < 0 ? dim + shape.size() : dim]; }

 private:
  std::size_t place(const Dims& index) const;
};

/// f(index) for every index of a shape, row-major.
void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& f);

using Arrays = std::vector<Array>;
/// The values that an op should give.
using Reference = std::function<Array(const Arrays&)>;

// ---- families of references

/// Element by element, broadcast.
Reference each(double (*f)(double));
Reference each(double (*f)(double, double));
Reference each(double (*f)(double, double, double));
/// f of every group of elements that `dims` (none: all) run through.
Reference reducing(double (*f)(const std::vector<double>&), const Dims& dims = {}, bool keepdim = false);
/// Element `at` of the result is the input's element source(at); the result's shape is shape(input's).
Reference rearranging(Shape (*shape)(const Shape&), Dims (*source)(const Dims& at, const Shape& input));
/// The same values in another shape.
Reference reshaping(Shape (*shape)(const Shape&));

}  // namespace bytetape::test
