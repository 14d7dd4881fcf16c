#pragma once
// Helpers for forward and backward of cross entropy. T is the dtype of the logits, and C that of everything else.
#include "bytetape/core/visit.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

/// Variants of the kernels, so that plain rows do not pay for the others.
enum class Rows { plain, weighted, log_probabilities };
inline Rows rows_of(const ConstView& lse, const ConstView& weight) {
  return !lse.defined() ? Rows::log_probabilities : weight.defined() ? Rows::weighted : Rows::plain;
}

/// A strided vector.
template <class T>
struct Column {
  T* data;
  std::int64_t step;
  __device__ T& operator[](std::int64_t i) const { return data[i * step]; }
};
template <class T>
Column<T> column(const View& v) {
  return {v.as<T>(), v.rank() > 0 ? v.strides[0] : 0};  // a scalar repeats its only element
}
template <class T>
Column<const T> column(const ConstView& v) {
  return {v.as<T>(), v.rank() > 0 ? v.strides[0] : 0};
}

template <class T>
struct Matrix {
  T* data;
  std::int64_t row_step, step;
  __device__ Column<T> operator[](std::int64_t i) const { return {data + i * row_step, step}; }
};
template <class T>
Matrix<T> matrix(const View& v) {
  return {v.as<T>(), v.strides[0], v.strides[1]};
}
template <class T>
Matrix<const T> matrix(const ConstView& v) {
  return {v.as<T>(), v.strides[0], v.strides[1]};
}

struct Targets {
  Column<const std::int64_t> data;
  std::int64_t n, classes, ignore;

  Targets(const ConstView& target, std::int64_t classes, std::int64_t ignore)
      : data(column<std::int64_t>(target)), n(target.shape[0]), classes(classes), ignore(ignore) {}
  __device__ bool is_class(std::int64_t t) const { return t >= 0 && t < classes; }
  __device__ bool is_fault(std::int64_t t) const { return t != ignore && !is_class(t); }
};

/// The weight of each class.
template <class T>
struct Weights {
  Column<const T> of_class;
  const T* total;  // sum of all weights if there is label smoothing; or null

  Weights(const ConstView& weight, const ConstView& total) : of_class(column<T>(weight)), total(total.as<T>()) {}
  __device__ T operator[](std::int64_t c) const { return of_class.data ? of_class[c] : T{1}; }
  __device__ T sum() const { return total ? *total : T{0}; }
};

void cross_entropy_backward(const CrossEntropyBackwardArgs& args);
void cross_entropy_in_place(const CrossEntropyInPlaceArgs& args);

}  // namespace bytetape::cuda
