#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Tensors of one value
/// Row-major; the `_like` forms have x's shape, dtype, device and (where they are dense) strides. ShapeError on
/// negative sizes; DTypeError where dtype has no such value (1.5 for integers). As for all factories, `role` says on
/// the ledger what the tensor is for: a batch made by hand is memory::Role::input.
/// @{
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
             memory::Role role = memory::Role::temporary);
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
            memory::Role role = memory::Role::temporary);
Tensor full(const Shape& shape, Scalar value, DType dtype = DType::f32, Device device = default_device(),
            memory::Role role = memory::Role::temporary);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);

/// The same in f32 on default_device(), for that role: `zeros({4}, memory::Role::input)`.
inline Tensor zeros(const Shape& shape, memory::Role role) { return zeros(shape, DType::f32, default_device(), role); }
inline Tensor ones(const Shape& shape, memory::Role role) { return ones(shape, DType::f32, default_device(), role); }
inline Tensor full(const Shape& shape, Scalar value, memory::Role role) {
  return full(shape, value, DType::f32, default_device(), role);
}
/// @}

/// The numbers from start in steps of `step`, up to but without end: ceil((end - start) / step) of them. Of integers,
/// dtype is i64 unless given, and each is exact in an integer dtype; with any floating number among the three it is
/// f32. Throws ValueError where step is 0 or leads away from end, a number is not finite, or an integer dtype has not
/// all of them; DTypeError where floating numbers should make an integer dtype.
Tensor arange(Scalar start, Scalar end, Scalar step = 1, std::optional<DType> dtype = {},
              Device device = default_device(), memory::Role role = memory::Role::temporary);
/// The same from 0 in steps of 1.
Tensor arange(Scalar end, std::optional<DType> dtype = {}, Device device = default_device(),
              memory::Role role = memory::Role::temporary);

/// \name Random tensors
/// Row-major. The same state of the generator gives the same numbers on every device, for any number of threads;
/// tensors on meta devices take none.
/// @{

/// Uniform in [0, 1). Throws DTypeError on integers.
Tensor rand(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
            Generator& generator = default_generator(), memory::Role role = memory::Role::temporary);
/// Standard normal. Throws DTypeError on integers.
Tensor randn(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
             Generator& generator = default_generator(), memory::Role role = memory::Role::temporary);
/// Uniform integers in [low, high). Throws ValueError where high <= low or dtype has not all of them.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64,
               Device device = default_device(), Generator& generator = default_generator(),
               memory::Role role = memory::Role::temporary);
/// A random order of the numbers 0 to n - 1, i64. Throws ValueError where n < 0.
Tensor randperm(std::int64_t n, Device device = default_device(), Generator& generator = default_generator(),
                memory::Role role = memory::Role::temporary);

/// The same from that generator, in the default dtype on default_device(): `rand({4}, generator)`.
inline Tensor rand(const Shape& shape, Generator& generator) {
  return rand(shape, DType::f32, default_device(), generator);
}
inline Tensor randn(const Shape& shape, Generator& generator) {
  return randn(shape, DType::f32, default_device(), generator);
}
inline Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator) {
  return randint(low, high, shape, DType::i64, default_device(), generator);
}
inline Tensor randperm(std::int64_t n, Generator& generator) { return randperm(n, default_device(), generator); }

/// @}

namespace detail {
// What uniform_ and normal_ (autograd/ops/random.h) are made of: no check that x may be written.
void fill_uniform(const Tensor& x, double low, double high, Generator& generator);
void fill_normal(const Tensor& x, double mean, double std, Generator& generator);
}  // namespace detail

/// Copies `values` (row-major) into a new tensor of T's dtype. T is double, float, std::int64_t, std::int32_t,
/// std::uint8_t or bool. Throws ShapeError where their number is not that of `shape`.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device = default_device(),
                   memory::Role role = memory::Role::temporary);
/// The same with one dim.
template <class T>
Tensor from_vector(const std::vector<T>& values) {
  return from_vector(values, values.size());
}

/// Wraps memory that the caller owns, row-major on the CPU; `release` (may be empty) runs when the last tensor on it is
/// gone. Such bytes are the caller's: they are on no ledger. Throws ShapeError on negative sizes, ValueError on a null
/// pointer to any elements.
Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release = {});

}  // namespace bytetape
