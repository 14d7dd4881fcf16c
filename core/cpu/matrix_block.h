#pragma once
#include <cstdint>
#include <initializer_list>

#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/gemm.h"

namespace bytetape::cpu {

/// Returns rows `row`.. and columns `col`.. of the matrix of x at `index`, which has one number per leading dim.
template <class V>
V matrix_block(const V& x, std::initializer_list<std::int64_t> index, std::int64_t row, std::int64_t col,
               std::int64_t rows, std::int64_t cols) {
  const int lead = x.rank() - 2;
  std::int64_t at = row * x.strides[lead] + col * x.strides[lead + 1];
  int d = 0;
  for (const std::int64_t i : index) at += i * x.strides[d++];
  auto* data = static_cast<char*>(const_cast<void*>(x.data())) + at * static_cast<std::int64_t>(size_of(x.dtype));
  return V(data, x.dtype, x.device, {rows, cols}, {x.strides[lead], x.strides[lead + 1]});
}

/// Returns a matrix as the output of a kernel.
template <class C>
View view_of(Matrix<C> x) {
  return View(x.data, dtype_of<C>, Device::cpu(), {x.rows, x.cols}, {x.row_step, x.col_step});
}

/// Returns the matrix of a view with elements C.
template <class C>
Matrix<const C> matrix_of(const ConstView& x) {
  return {x.as<C>(), x.shape[0], x.shape[1], x.strides[0], x.strides[1]};
}

/// Returns a block for gemm(): in place, or copied and converted into `buffer`.
template <class C>
Matrix<const C> load_block(const ConstView& x, C* buffer) {
  if (x.dtype == dtype_of<C>) return matrix_of<C>(x);
  const Matrix<C> copied = row_major(buffer, x.shape[0], x.shape[1]);
  copy(x, view_of(copied));
  return copied;
}

}  // namespace bytetape::cpu
