#pragma once
#include <functional>
#include <vector>

#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = {});
Tensor full(const Shape& shape, Scalar value, DType dtype = DType::f32, Device device = {});
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);

/// start, start + step, ... up to but without end. dtype i64. Throws ValueError where step is 0 or leads away from end.
Tensor arange(std::int64_t start, std::int64_t end, std::int64_t step = 1, DType dtype = DType::i64,
              Device device = {});
/// 0 .. end - 1.
Tensor arange(std::int64_t end);

/// Uniform in [0, 1).
Tensor rand(const Shape& shape, DType dtype = DType::f32, Device device = {},
            Generator& generator = default_generator());
/// Standard normal.
Tensor randn(const Shape& shape, DType dtype = DType::f32, Device device = {},
             Generator& generator = default_generator());
/// Uniform integers in [low, high). Throws ValueError where high <= low or dtype has not all of them.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64, Device device = {},
               Generator& generator = default_generator());
/// A random order of 0 .. n - 1. i64.
Tensor randperm(std::int64_t n, Device device = {}, Generator& generator = default_generator());

/// Fills x in place, uniformly in [low, high) or normally. Throws DTypeError on integers, ValueError where high < low,
/// the range is infinite or std is negative.
void fill_uniform(Tensor& x, double low, double high, Generator& generator = default_generator());
void fill_normal(Tensor& x, double mean, double std, Generator& generator = default_generator());

/// Copies `values` (row-major) into a new tensor. Throws ShapeError where their number is not that of `shape`.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device = {});
template <class T>
Tensor from_vector(const std::vector<T>& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())});
}

/// Wraps memory that the caller owns, row-major on the CPU; `release` (may be empty) runs when the last tensor on it is
/// gone. Such bytes are the caller's: they are on no ledger.
Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release = {});

}  // namespace bytetape
