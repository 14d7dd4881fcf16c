#pragma once
#include <concepts>
#include <functional>
#include <optional>
#include <utility>
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
/// Checks the arguments of from_blob(). Returns the bytes from the first element to the end of the last one.
std::size_t check_blob(const void* data, const Shape& shape, const Strides& strides, DType dtype, Device device);
/// Returns checked strides without negative ones, which check_blob() allows only where they are never used.
Strides forward_strides(Strides strides);
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

/// The memory that from_blob() wraps.
struct BlobOptions {
  Strides strides{};                ///< in elements; empty: row-major
  Device device = Device::cpu();    ///< where the memory is
  std::function<void()> release{};  ///< runs after the last tensor on it is gone; must not throw
  bool is_read_only = false;        ///< ops that write it throw ValueError
};
/// Wraps memory of the caller as a tensor whose first element is at `data`. The ledger has it as `external`.
///
/// On a GPU, work on the memory must be ordered with the thread's stream. `release` then runs on a thread of its own,
/// once the GPU has done all work of ours on it.
/// Throws ShapeError if a size is negative, or if strides and shape differ in length.
/// Throws ValueError if a stride is negative, if data is not a multiple of the element size, or if data is null and the
/// tensor is not empty.
/// Throws DeviceError if the device is not there, is a meta device, or cannot use the address.
Tensor from_blob(void* data, const Shape& shape, DType dtype, BlobOptions options = {});
/// The same for row-major memory of the CPU.
template <std::invocable Release>
Tensor from_blob(void* data, const Shape& shape, DType dtype, Release release) {
  return from_blob(data, shape, dtype, BlobOptions{.release = std::move(release)});
}

/// Waits until each GPU is done with memory that no tensor uses any more, and the memory's owners have it back.
/// Call it before the owners end.
void finish_releases();

}  // namespace bytetape
