#include "bytetape/core/factories.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "bytetape/core/check.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/external.h"
#include "bytetape/core/device/interop.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/random.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {
namespace {

using memory::Op;
using memory::Role;

// Takes a range of the generator's stream for x.
PhiloxState draw(Generator& generator, const Tensor& x, std::int64_t words_each) {
  return generator.take(words_each * x.numel(), x.device());
}
std::int64_t words(DType t) { return t == DType::f64 ? 2 : 1; }

Tensor filled(Tensor y, Scalar value) {
  run<&CopyKernels::fill>(y.device(), value, y.write());
  return y;
}

// Fills y with random integers in [low, high).
Tensor filled_randomly(Tensor y, std::int64_t low, std::int64_t high, Generator& generator) {
  run<&RandomKernels::randint>(y.device(), draw(generator, y, 2), low, high, y.write());
  return y;
}
void check_range(std::int64_t low, std::int64_t high, DType dtype) {
  check<ValueError>(low < high, "expected low < high, got ", low, " and ", high);
  check<ValueError>(fits(low, dtype) && fits(high - 1, dtype), "the range from ", low, " to ", high - 1,
                    " does not fit into ", dtype);
}

// Returns the number of values from start to end. Checks that neither the number nor the last value overflows.
std::int64_t count_integers(std::int64_t start, std::int64_t end, std::int64_t step, DType dtype) {
  const __int128 span = static_cast<__int128>(end) - start, stride = step;
  check<ValueError>(step != 0 && (span == 0 || (span > 0) == (step > 0)), "steps of ", step, " do not lead from ",
                    start, " to ", end);
  const __int128 count = (span + stride - (step > 0 ? 1 : -1)) / stride;
  check<ValueError>(count <= std::int64_t{1} << 62, "too many elements from ", start, " to ", end);
  const auto last = static_cast<std::int64_t>(start + (count - 1) * stride);  // not past end, if count > 0
  check<ValueError>(count == 0 || (fits(start, dtype) && fits(last, dtype)), "the numbers from ", start, " to ", end,
                    " do not fit into ", dtype);
  return static_cast<std::int64_t>(count);
}

std::int64_t count_floats(double start, double end, double step, DType dtype) {
  check<ValueError>(std::isfinite(start) && std::isfinite(end) && std::isfinite(step), "expected finite numbers, got ",
                    start, " to ", end, " in steps of ", step);
  check<DTypeError>(is_floating(dtype), "integers need integer bounds and steps; got ", dtype, " from ", start, " to ",
                    end, " in steps of ", step);
  const double steps = (end - start) / step;
  check<ValueError>(step != 0 && steps >= 0, "steps of ", step, " do not lead from ", start, " to ", end);
  check<ValueError>(steps <= 0x1p62, "too many elements from ", start, " to ", end);
  return static_cast<std::int64_t>(std::ceil(steps));
}

}  // namespace

Tensor full(const Shape& shape, Scalar value, DType dtype, Device device, Role role) {
  const Op<"full"> op;
  check<DTypeError>(fits(value, dtype), dtype, " cannot represent the number ", value);
  return filled(empty(shape, dtype, device, role), value);
}

Tensor zeros(const Shape& shape, DType dtype, Device device, Role role) {
  const Op<"zeros"> op;
  return filled(empty(shape, dtype, device, role), 0);
}

Tensor ones(const Shape& shape, DType dtype, Device device, Role role) {
  const Op<"ones"> op;
  return filled(empty(shape, dtype, device, role), 1);
}

Tensor zeros_like(const Tensor& x) {
  const Op<"zeros_like"> op;
  return filled(empty_like(x), 0);
}

Tensor ones_like(const Tensor& x) {
  const Op<"ones_like"> op;
  return filled(empty_like(x), 1);
}

Tensor full_like(const Tensor& x, Scalar value) {
  const Op<"full_like"> op;
  check_defined(x);
  check<DTypeError>(fits(value, x.dtype()), x.dtype(), " cannot represent the number ", value);
  return filled(empty_like(x), value);
}

Tensor linspace(double start, double end, std::int64_t steps, DType dtype, Device device, Role role) {
  const Op<"linspace"> op;
  check<DTypeError>(is_floating(dtype), "expected a floating dtype, got ", dtype);
  check<ValueError>(steps >= 0, "expected steps >= 0, got ", steps);
  check<ValueError>(std::isfinite(end - start), "expected a finite range, got ", start, " to ", end);
  Tensor y = empty(steps, dtype, device, role);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  run<&CopyKernels::arange>(device, start, step, y.write());
  if (steps > 1)
    filled(y.alias({}, {}, steps - 1), end);  // start + step * (steps - 1) may be rounded to another number
  return y;
}

Tensor eye(std::int64_t n, std::int64_t m, DType dtype, Device device, Role role) {
  const Op<"eye"> op;
  Tensor y = filled(empty({n, m}, dtype, device, role), 0);
  filled(y.alias(std::min(n, m), m + 1, 0), 1);
  return y;
}

Tensor arange(Scalar start, Scalar end, Scalar step, std::optional<DType> wanted, Device device, Role role) {
  const Op<"arange"> op;
  const bool whole = start.is_integral() && end.is_integral() && step.is_integral();
  const DType dtype = wanted.value_or(whole ? DType::i64 : DType::f32);
  const std::int64_t n =
      whole ? count_integers(start.to<std::int64_t>(), end.to<std::int64_t>(), step.to<std::int64_t>(), dtype)
            : count_floats(start.to<double>(), end.to<double>(), step.to<double>(), dtype);
  Tensor y = empty(n, dtype, device, role);
  run<&CopyKernels::arange>(device, start, step, y.write());
  return y;
}
Tensor arange(Scalar end, std::optional<DType> dtype, Device device, Role role) {
  return arange(0, end, 1, dtype, device, role);
}

Tensor rand(const Shape& shape, DType dtype, Device device, Generator& generator, Role role) {
  const Op<"rand"> op;
  Tensor y = empty(shape, dtype, device, role);
  detail::fill_uniform(y, 0, 1, generator);
  return y;
}

Tensor randn(const Shape& shape, DType dtype, Device device, Generator& generator, Role role) {
  const Op<"randn"> op;
  Tensor y = empty(shape, dtype, device, role);
  detail::fill_normal(y, 0, 1, generator);
  return y;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, Device device,
               Generator& generator, Role role) {
  const Op<"randint"> op;
  check_range(low, high, dtype);
  return filled_randomly(empty(shape, dtype, device, role), low, high, generator);
}

Tensor rand_like(const Tensor& x, Generator& generator) {
  const Op<"rand_like"> op;
  check_floating(x);
  Tensor y = empty_like(x);
  detail::fill_uniform(y, 0, 1, generator);
  return y;
}

Tensor randn_like(const Tensor& x, Generator& generator) {
  const Op<"randn_like"> op;
  check_floating(x);
  Tensor y = empty_like(x);
  detail::fill_normal(y, 0, 1, generator);
  return y;
}

Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high, Generator& generator) {
  const Op<"randint_like"> op;
  check_defined(x);
  check_range(low, high, x.dtype());
  return filled_randomly(empty_like(x), low, high, generator);
}

Tensor randperm(std::int64_t n, Device device, Generator& generator, Role role) {
  const Op<"randperm"> op;
  check<ValueError>(n >= 0, "expected n >= 0, got ", n);
  Tensor y = empty(n, DType::i64, device, role);
  const Prepared<&RandomKernels::randperm> kernel(device, {{}, y.write()});
  kernel.launch({draw(generator, y, 2), y.write()});
  return y;
}

void detail::fill_uniform(const Tensor& x, double low, double high, Generator& generator) {
  const Op<"uniform_"> op;
  check_floating(x);
  check<ValueError>(low <= high && std::isfinite(high - low), "expected a finite range with low <= high, got ", low,
                    " and ", high);
  run<&RandomKernels::uniform>(x.device(), draw(generator, x, words(x.dtype())), low, high, x.write());
}

void detail::fill_normal(const Tensor& x, double mean, double std, Generator& generator) {
  const Op<"normal_"> op;
  check_floating(x);
  check<ValueError>(std >= 0, "expected std >= 0, got ", std);
  run<&RandomKernels::normal>(x.device(), draw(generator, x, words(x.dtype())), mean, std, x.write());
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device, Role role) {
  const Op<"from_vector"> op;
  check(numel(shape) == static_cast<std::int64_t>(values.size()), values.size(), " values do not fill shape ", shape);
  Tensor y = empty(shape, dtype_of<T>, device, role);
  const auto copy_from = [&](const auto& plain) {
    const ConstView source(plain.data(), dtype_of<T>, Device::cpu(), shape, contiguous_strides(shape));
    copy_across(source, y.write());
  };
  if constexpr (std::is_same_v<T, bool>)
    copy_from(std::vector<std::uint8_t>(values.begin(), values.end()));  // vector<bool> packs its bits
  else
    copy_from(values);
  return y;
}
template Tensor from_vector(const std::vector<double>&, const Shape&, Device, Role);
template Tensor from_vector(const std::vector<float>&, const Shape&, Device, Role);
template Tensor from_vector(const std::vector<std::int64_t>&, const Shape&, Device, Role);
template Tensor from_vector(const std::vector<std::int32_t>&, const Shape&, Device, Role);
template Tensor from_vector(const std::vector<std::uint8_t>&, const Shape&, Device, Role);
template Tensor from_vector(const std::vector<bool>&, const Shape&, Device, Role);

std::size_t detail::check_blob(const void* data, const Shape& shape, const Strides& strides, DType dtype,
                               Device device) {
  check<DeviceError>(!device.is_meta, "a meta device has no memory to wrap");
  check(shape.size() == strides.size(), "expected a stride for each dim of shape ", shape, ", got ", strides);
  std::size_t bytes = bytes_of(shape, dtype);
  if (bytes == 0) return 0;
  check<ValueError>(data != nullptr, "expected a pointer to ", numel(shape), " elements, got null");
  check<ValueError>(reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0, "expected an address for ", dtype,
                    " that is a multiple of ", size_of(dtype), " bytes, got ", data);
  constexpr std::int64_t most = std::int64_t{1} << 58;  // elements; of 8 bytes they take 2^61 bytes
  std::int64_t span = 1;
  for (int d = 0; d < shape.size(); ++d) {
    check<ValueError>(strides[d] >= 0 || shape[d] == 1, "expected strides of at least 0, got ", strides,
                      "; copy the tensor first");
    check(shape[d] == 1 || strides[d] <= (most - span) / (shape[d] - 1), "strides ", strides, " are too large");
    span += (shape[d] - 1) * (shape[d] == 1 ? 0 : strides[d]);
  }
  bytes = static_cast<std::size_t>(span) * size_of(dtype);
  check<ValueError>(bytes <= std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(data), bytes,
                    " bytes do not fit behind the address ", data);
  const CurrentDevice current(device);
  memory::allocator(device);  // throws if the device is not there
  if (const Interop* its = backend(device).interop) its->check_address(device.index, data);
  return bytes;
}

Strides detail::forward_strides(Strides strides) {
  for (std::int64_t& s : strides) s = std::max<std::int64_t>(s, 0);
  return strides;
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, BlobOptions options) {
  const Op<"from_blob"> op;
  bytes_of(shape, dtype);  // throws before the strides overflow
  const Strides strides = options.strides.empty() ? contiguous_strides(shape) : options.strides;
  const std::size_t bytes = detail::check_blob(data, shape, strides, dtype, options.device);
  auto impl = make_ref<TensorImpl>(shape, detail::forward_strides(strides), dtype);
  auto external =
      std::make_unique<ExternalMemory>(data, bytes, options.device, std::move(options.release), options.is_read_only);
  impl->storage = make_ref<Storage>(data, bytes, options.device, std::move(external));
  return Tensor(std::move(impl));
}

}  // namespace bytetape
