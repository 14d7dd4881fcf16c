#include "bytetape/core/factories.h"

#include <cmath>
#include <utility>

#include "bytetape/core/dispatch.h"

namespace bytetape {
namespace {

using memory::Op;

void check_floating(const Tensor& x) {
  check<ValueError>(x.defined(), "the tensor is undefined");
  check<DTypeError>(is_floating(x.dtype()), "expected a floating dtype, got ", describe(x));
}

// A stretch of the generator's stream for x. A meta tensor takes none: a prediction leaves the numbers of the run as
// they are.
PhiloxState draw(Generator& generator, const Tensor& x, std::int64_t words_each) {
  return x.device().is_meta ? PhiloxState{} : generator.take(words_each * x.numel());
}
std::int64_t words(DType t) { return t == DType::f64 ? 2 : 1; }

}  // namespace

Tensor full(const Shape& shape, Scalar value, DType dtype, Device device) {
  const Op<"full"> op;
  check<DTypeError>(fits(value, dtype), "the number ", value, " is no ", dtype);
  Tensor y = empty(shape, dtype, device);
  run<&Kernels::fill>(device, value, y.write());
  return y;
}

Tensor zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }
Tensor ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }

Tensor zeros_like(const Tensor& x) {
  const Op<"zeros_like"> op;
  Tensor y = empty_like(x);
  run<&Kernels::fill>(y.device(), Scalar(0), y.write());
  return y;
}

Tensor ones_like(const Tensor& x) {
  const Op<"ones_like"> op;
  Tensor y = empty_like(x);
  run<&Kernels::fill>(y.device(), Scalar(1), y.write());
  return y;
}

Tensor arange(std::int64_t start, std::int64_t end, std::int64_t step, DType dtype, Device device) {
  const Op<"arange"> op;
  const __int128 span = static_cast<__int128>(end) - start, stride = step;
  check<ValueError>(step != 0 && (span == 0 || (span > 0) == (step > 0)), "arange from ", start, " to ", end,
                    " cannot step by ", step);
  const __int128 count = (span + stride - (step > 0 ? 1 : -1)) / stride;
  check<ValueError>(count <= std::int64_t{1} << 62, "arange from ", start, " to ", end, " has too many elements");
  const auto n = static_cast<std::int64_t>(count);
  const auto last = static_cast<std::int64_t>(start + (count - 1) * stride);  // not past end, if there is one
  check<ValueError>(n == 0 || (fits(start, dtype) && fits(last, dtype)), "arange from ", start, " to ", end,
                    " does not fit into ", dtype);
  Tensor y = empty({n}, dtype, device);
  run<&Kernels::arange>(device, Scalar(start), Scalar(step), y.write());
  return y;
}
Tensor arange(std::int64_t end) { return arange(0, end); }

Tensor detail::arange(double start, double end, double step, DType dtype, Device device) {
  const Op<"arange"> op;
  check<DTypeError>(is_floating(dtype), "whole numbers need whole bounds; got ", dtype, " from ", start, " to ", end);
  const double n = std::ceil((end - start) / step);
  check<ValueError>(n >= 0 && n < 0x1p62, "arange from ", start, " to ", end, " cannot step by ", step);
  Tensor y = empty({static_cast<std::int64_t>(n)}, dtype, device);
  run<&Kernels::arange>(device, Scalar(start), Scalar(step), y.write());
  return y;
}

Tensor rand(const Shape& shape, DType dtype, Device device, Generator& generator) {
  const Op<"rand"> op;
  Tensor y = empty(shape, dtype, device);
  detail::fill_uniform(y, 0, 1, generator);
  return y;
}

Tensor randn(const Shape& shape, DType dtype, Device device, Generator& generator) {
  const Op<"randn"> op;
  Tensor y = empty(shape, dtype, device);
  detail::fill_normal(y, 0, 1, generator);
  return y;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, Device device,
               Generator& generator) {
  const Op<"randint"> op;
  check<ValueError>(low < high, "expected low < high, got ", low, " and ", high);
  check<ValueError>(fits(low, dtype) && fits(high - 1, dtype), "the range from ", low, " to ", high - 1,
                    " does not fit into ", dtype);
  Tensor y = empty(shape, dtype, device);
  run<&Kernels::randint>(device, draw(generator, y, 2), low, high, y.write());
  return y;
}

Tensor randperm(std::int64_t n, Device device, Generator& generator) {
  const Op<"randperm"> op;
  check<ValueError>(n >= 0, "expected n >= 0, got ", n);
  Tensor y = empty({n}, DType::i64, device);
  const Prepared<&Kernels::randperm> kernel(device, {{}, y.write()});
  kernel.launch({draw(generator, y, 2), y.write()});
  return y;
}

void detail::fill_uniform(Tensor& x, double low, double high, Generator& generator) {
  const Op<"uniform_"> op;
  check_floating(x);
  check<ValueError>(low <= high && std::isfinite(high - low), "expected a finite range with low <= high, got ", low,
                    " and ", high);
  run<&Kernels::uniform>(x.device(), draw(generator, x, words(x.dtype())), low, high, x.write());
}

void detail::fill_normal(Tensor& x, double mean, double std, Generator& generator) {
  const Op<"normal_"> op;
  check_floating(x);
  check<ValueError>(std >= 0, "expected std >= 0, got ", std);
  run<&Kernels::normal>(x.device(), draw(generator, x, words(x.dtype())), mean, std, x.write());
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device) {
  const Op<"from_vector"> op;
  check(numel(shape) == static_cast<std::int64_t>(values.size()), values.size(), " values do not fill shape ", shape);
  Tensor y = empty(shape, dtype_of<T>, device);
  const auto copy_from = [&](const auto& plain) {
    const ConstView source(plain.data(), dtype_of<T>, Device::cpu(), shape, contiguous_strides(shape));
    run<&Kernels::copy>(device, source, y.write());
  };
  if constexpr (std::is_same_v<T, bool>)
    copy_from(std::vector<std::uint8_t>(values.begin(), values.end()));  // vector<bool> packs its bits
  else
    copy_from(values);
  return y;
}
template Tensor from_vector(const std::vector<double>&, const Shape&, Device);
template Tensor from_vector(const std::vector<float>&, const Shape&, Device);
template Tensor from_vector(const std::vector<std::int64_t>&, const Shape&, Device);
template Tensor from_vector(const std::vector<std::int32_t>&, const Shape&, Device);
template Tensor from_vector(const std::vector<std::uint8_t>&, const Shape&, Device);
template Tensor from_vector(const std::vector<bool>&, const Shape&, Device);

Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release) {
  const Op<"from_blob"> op;
  check<ValueError>(data != nullptr || numel(shape) == 0, "from_blob of a null pointer");
  auto impl = make_ref<TensorImpl>();
  for (std::int64_t n : shape) check(n >= 0, "a shape has no negative sizes, got ", shape);
  const std::size_t bytes = bytes_of(shape, dtype);
  impl->storage = make_ref<Storage>(data, bytes, Device::cpu(), std::move(release));
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

}  // namespace bytetape
