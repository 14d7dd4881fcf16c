#include "bytetape/core/tensor.h"

#include <cstring>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/memory/ledger/made_for.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/visit.h"

namespace bytetape {
namespace {

// Takes an impl with shape and strides, and adds the storage. Copying a shape right after writing its parts is slow.
Tensor with_storage(Ref<TensorImpl> impl, std::size_t bytes, Device device, memory::Role role) {
  const memory::MadeFor tensor(impl->dtype, impl->shape);
  impl->storage = make_ref<Storage>(bytes, device, role);
  return Tensor(std::move(impl));
}

}  // namespace

std::size_t bytes_of(const Shape& shape, DType dtype) {
  constexpr std::size_t most = std::size_t{1} << 62;
  const auto n = static_cast<std::size_t>(numel(shape));
  check(n <= most / size_of(dtype), "a tensor ", dtype, shape, " has too many bytes");
  return n * size_of(dtype);
}

Tensor empty(const Shape& shape, DType dtype, Device device, memory::Role role) {
  const memory::Op<"empty"> op;
  const std::size_t bytes = bytes_of(shape, dtype);  // first, because strides overflow for shapes that it rejects
  return with_storage(make_ref<TensorImpl>(shape, dtype), bytes, device, role);
}

Tensor empty_strided(const Shape& shape, const Strides& strides, DType dtype, Device device, memory::Role role) {
  const memory::Op<"empty_strided"> op;
  const std::size_t bytes = bytes_of(shape, dtype);
  check(shape.size() == strides.size() && is_dense(shape, strides), "strides ", strides,
        " do not address each element of shape ", shape, " once");
  return with_storage(make_ref<TensorImpl>(shape, strides, dtype), bytes, device, role);
}

Tensor empty_like(const Tensor& x, DType dtype, Device device) {
  const bool is_row_major = x.is_contiguous() || x.numel() == 0 || !is_dense(x.shape(), x.strides());
  const std::size_t bytes = bytes_of(x.shape(), dtype);
  auto impl =
      is_row_major ? make_ref<TensorImpl>(x.shape(), dtype) : make_ref<TensorImpl>(x.shape(), x.strides(), dtype);
  return with_storage(std::move(impl), bytes, device, memory::Role::temporary);
}

Tensor empty_like(const Tensor& x, DType dtype) { return empty_like(x, dtype, x.device()); }
Tensor empty_like(const Tensor& x) { return empty_like(x, x.dtype()); }

void Tensor::fail_undefined() { fail<ValueError>("the tensor is undefined"); }

Tensor Tensor::alias(const Shape& shape, const Strides& strides, std::int64_t offset) const {
  auto impl = make_ref<TensorImpl>(shape, strides, self().dtype);
  impl->storage = impl_->storage;
  impl->offset = offset;
  impl->rebased_seen = impl_->rebased_seen;
  return Tensor(std::move(impl));
}

void Tensor::set_data(const Tensor& x) const {
  check(shape() == x.shape(), "set_data(): expected a tensor of the same shape as ", describe(*this), ", got ",
        describe(x));
  const memory::Role role = storage().role();
  const memory::NameId module = storage().module();
  impl_->storage = x.impl()->storage;
  impl_->offset = x.storage_offset();
  impl_->strides = x.strides();
  impl_->dtype = x.dtype();
  impl_->is_view = x.impl()->is_view;
  storage().set_role(role, module);
}

void* Tensor::checked_data(DType wanted) const {
  check<DTypeError>(wanted == dtype(), "data(): expected a tensor of dtype ", wanted, ", got ", describe(*this));
  check<DeviceError>(device() == Device::cpu(), "data on ", device(),
                     " cannot be read on the host: copy the tensor to cpu");
  storage().refill();
  return address();
}

Scalar Tensor::item() const {
  const memory::Op<"item"> op;
  check(numel() == 1, "expected one element, got ", describe(*this));
  check<DeviceError>(!device().is_meta, describe(*this), " holds no data");
  std::int64_t bits = 0;
  const View out(&bits, dtype(), Device::cpu(), shape(), strides());
  copy_across(read(), out);
  return visit(dtype(), [&](auto value) -> Scalar {
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    if constexpr (std::is_arithmetic_v<decltype(value)>)
      return value;
    else
      return static_cast<float>(value);
  });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const memory::Op<"to_vector"> op;
  check<DeviceError>(!device().is_meta, describe(*this), " holds no data");
  Tensor host = empty(shape(), dtype_of<T>, Device::cpu());
  copy_across(read(), host.write());
  const T* first = std::as_const(host).template data<T>();
  return std::vector<T>(first, first + numel());
}
template std::vector<double> Tensor::to_vector() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

std::ostream& operator<<(std::ostream& out, const Description& d) {
  if (!d.x.defined()) return out << "an undefined tensor";
  return out << d.x.dtype() << d.x.shape() << " on " << d.x.device();
}

HeldWorkspace::HeldWorkspace(std::size_t bytes, Device device) {
  if (bytes == 0) return;
  storage_ = make_ref<Storage>(bytes, device, memory::Role::workspace);
  ws_ = {storage_->data(), bytes};
}

}  // namespace bytetape
