#pragma once
#include "bytetape/core/cpu/gemm.h"

// Products of attention's tiles. They are small and in cache, so that packing them as gemm() does would take longer
// than it saves.
namespace bytetape::cpu {

/// Returns b with a col_step of 1. Copies it into `buffer`, which has room for its elements, unless it has that
/// already.
template <class T>
Matrix<const T> with_unit_col_step(Matrix<const T> b, T* buffer);

/// Computes y += a @ b on the calling thread. a may have any steps. b and y must have a col_step of 1. The products of
/// an element of y are added up in the order of k. In whole vectors of columns, their sum is then added to the element.
/// In the last columns, they are added to the element one by one.
template <class T>
void add_product(Matrix<const T> a, Matrix<const T> b, Matrix<T> y);

}  // namespace bytetape::cpu
