#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Tensors of one value
/// Row-major. The `_like` forms have x's shape, dtype and device, and its strides if they are dense. All factories take
/// a `role`, the purpose of the tensor on the ledger: use memory::Role::input for a batch made by hand.
/// Throws ShapeError if a size is negative.
/// Throws DTypeError if the dtype cannot represent the value (1.5 for integers).
/// @{
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
             memory::Role role = memory::Role::temporary);
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
            memory::Role role = memory::Role::temporary);
Tensor full(const Shape& shape, Scalar value, DType dtype = DType::f32, Device device = default_device(),
            memory::Role role = memory::Role::temporary);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);

/// f32 zeros on default_device() with a role: `zeros({4}, memory::Role::input)`.
inline Tensor zeros(const Shape& shape, memory::Role role) { return zeros(shape, DType::f32, default_device(), role); }
inline Tensor ones(const Shape& shape, memory::Role role) { return ones(shape, DType::f32, default_device(), role); }
inline Tensor full(const Shape& shape, Scalar value, memory::Role role) {
  return full(shape, value, DType::f32, default_device(), role);
}
/// @}

/// Returns ceil((end - start) / step) numbers, from start in steps of `step`, without end.
/// The default dtype is f32 if a number is floating-point, else i64. Integer dtypes have exact values.
/// Throws ValueError if step is 0 or leads away from end, a number is not finite, or an integer dtype cannot represent
/// all values.
/// Throws DTypeError if an integer dtype is requested for floating-point numbers.
Tensor arange(Scalar start, Scalar end, Scalar step = 1, std::optional<DType> dtype = {},
              Device device = default_device(), memory::Role role = memory::Role::temporary);
/// Returns the numbers from 0 in steps of 1, without end.
Tensor arange(Scalar end, std::optional<DType> dtype = {}, Device device = default_device(),
              memory::Role role = memory::Role::temporary);

/// Returns `steps` numbers at equal distances, from start to end. Both are included, and one step is start.
/// Throws DTypeError if dtype is not floating-point.
/// Throws ValueError if steps is negative, or the range from start to end is not finite.
Tensor linspace(double start, double end, std::int64_t steps, DType dtype = DType::f32,
                Device device = default_device(), memory::Role role = memory::Role::temporary);

/// Returns the matrix (n, m) with ones on the diagonal and zeros elsewhere.
/// Throws ShapeError if a size is negative.
Tensor eye(std::int64_t n, std::int64_t m, DType dtype = DType::f32, Device device = default_device(),
           memory::Role role = memory::Role::temporary);
/// Returns the identity matrix (n, n).
inline Tensor eye(std::int64_t n, DType dtype = DType::f32, Device device = default_device(),
                  memory::Role role = memory::Role::temporary) {
  return eye(n, n, dtype, device, role);
}

/// \name Random tensors
/// Row-major. The same generator state gives the same numbers on every device, for any number of threads. Meta tensors
/// do not advance the generator. The `_like` forms are as those of zeros_like(): their numbers depend on the shape and
/// the dtype, not on the strides.
/// @{

/// Uniform in [0, 1).
/// Throws DTypeError if dtype is not floating-point.
Tensor rand(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
            Generator& generator = default_generator(), memory::Role role = memory::Role::temporary);
/// Standard normal.
/// Throws DTypeError if dtype is not floating-point.
Tensor randn(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
             Generator& generator = default_generator(), memory::Role role = memory::Role::temporary);
/// Uniform integers in [low, high).
/// Throws ValueError if high <= low, or if dtype cannot represent all of them.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64,
               Device device = default_device(), Generator& generator = default_generator(),
               memory::Role role = memory::Role::temporary);
/// As rand(), of x's shape, dtype and device.
Tensor rand_like(const Tensor& x, Generator& generator = default_generator());
/// As randn(), of x's shape, dtype and device.
Tensor randn_like(const Tensor& x, Generator& generator = default_generator());
/// As randint(), of x's shape, dtype and device.
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high, Generator& generator = default_generator());
/// A random permutation of 0 to n - 1, i64.
/// Throws ValueError if n < 0.
Tensor randperm(std::int64_t n, Device device = default_device(), Generator& generator = default_generator(),
                memory::Role role = memory::Role::temporary);

/// Uniform numbers from a generator, in the default dtype on default_device(): `rand({4}, generator)`.
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
// The kernels' part of uniform_ and normal_ (autograd/ops/random.h). Does not check that x may be written.
void fill_uniform(const Tensor& x, double low, double high, Generator& generator);
void fill_normal(const Tensor& x, double mean, double std, Generator& generator);
}  // namespace detail

/// Copies `values` (row-major) into a new tensor of T's dtype.
/// T is double, float, std::int64_t, std::int32_t, std::uint8_t or bool.
/// Throws ShapeError if the number of values is not that of `shape`.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device = default_device(),
                   memory::Role role = memory::Role::temporary);
/// Copies `values` into a new 1-D tensor.
template <class T>
Tensor from_vector(const std::vector<T>& values) {
  return from_vector(values, values.size());
}

/// Wraps memory of the caller as a row-major CPU tensor. `release` (may be empty) runs after the last tensor on it is
/// gone.
/// The ledger does not count these bytes.
/// Throws ShapeError if a size is negative.
/// Throws ValueError if data is null and the tensor is not empty.
Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release = {});

}  // namespace bytetape
