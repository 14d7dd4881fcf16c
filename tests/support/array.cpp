#include "tests/support/array.h"

namespace bytetape::test {

std::size_t Array::place(const Dims& index) const {
  const Strides strides = contiguous_strides(shape);
  const int extra = index.size() - shape.size();
  std::int64_t at = 0;
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) at += index[d + extra] * strides[d];
  return static_cast<std::size_t>(at);
}

void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& f) {
  Dims index = shape;
  for (std::int64_t flat = 0, n = numel(shape); flat < n; ++flat) {
    std::int64_t rest = flat;
    for (int d = shape.size() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    f(index);
  }
}

namespace {

Array broadcast_map(const Arrays& x, std::size_t inputs, const std::function<double(const Dims&)>& f) {
  Shape shape = x[0].shape;
  for (std::size_t i = 1; i < inputs; ++i) shape = broadcast(shape, x[i].shape);
  Array y(shape);
  for_each_index(shape, [&](const Dims& at) { y(at) = f(at); });
  return y;
}

}  // namespace

Reference each(double (*f)(double)) {
  return [f](const Arrays& x) { return broadcast_map(x, 1, [&](const Dims& at) { return f(x[0](at)); }); };
}

Reference each(double (*f)(double, double)) {
  return [f](const Arrays& x) { return broadcast_map(x, 2, [&](const Dims& at) { return f(x[0](at), x[1](at)); }); };
}

Reference each(double (*f)(double, double, double)) {
  return [f](const Arrays& x) {
    return broadcast_map(x, 3, [&](const Dims& at) { return f(x[0](at), x[1](at), x[2](at)); });
  };
}

Reference reducing(double (*f)(const std::vector<double>&), const Dims& dims, bool keepdim) {
  return [=](const Arrays& x) {
    const Shape kept = reduced_shape(x[0].shape, dims, true);
    Array y(kept);
    for_each_index(kept, [&](const Dims& at) {
      std::vector<double> group;
      Shape inner = x[0].shape;
      for (int d = 0; d < inner.size(); ++d)
        if (kept[d] != 1 || inner[d] == 1) inner[d] = 1;
      for_each_index(inner, [&](const Dims& within) {
        Dims index = at;
        for (int d = 0; d < index.size(); ++d) index[d] += within[d];
        group.push_back(x[0](index));
      });
      y(at) = f(group);
    });
    y.shape = reduced_shape(x[0].shape, dims, keepdim);
    return y;
  };
}

Reference rearranging(Shape (*shape)(const Shape&), Dims (*source)(const Dims& at, const Shape& input)) {
  return [=](const Arrays& x) {
    Array y(shape(x[0].shape));
    for_each_index(y.shape, [&](const Dims& at) { y(at) = x[0](source(at, x[0].shape)); });
    return y;
  };
}

Reference reshaping(Shape (*shape)(const Shape&)) {
  return [shape](const Arrays& x) { return Array(shape(x[0].shape), x[0].values); };
}

}  // namespace bytetape::test
