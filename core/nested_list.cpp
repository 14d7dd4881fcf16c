#include "bytetape/core/nested_list.h"

#include <algorithm>
#include <memory>

#include "bytetape/core/device/transfer.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/visit.h"

namespace bytetape {

NestedList::NestedList(std::initializer_list<NestedList> items) {
  const memory::Op<"tensor"> op;
  shape_.push_back(static_cast<std::int64_t>(items.size()));
  if (items.size() == 0) return;
  const NestedList& first = *items.begin();
  for (const std::int64_t size : first.shape_) shape_.push_back(size);
  dtype_ = first.dtype_;
  for (const NestedList& item : items) {
    check(item.shape_ == first.shape_, "lists beside each other must have one shape, got ", first.shape_, " and ",
          item.shape_);
    dtype_ = std::min(dtype_, item.dtype_);  // the order of the enum: f32, i64, bool
    numbers_.insert(numbers_.end(), item.numbers_.begin(), item.numbers_.end());
  }
}

Tensor tensor(const NestedList& list, std::optional<DType> wanted, Device device, memory::Role role) {
  const memory::Op<"tensor"> op;
  const DType dtype = wanted.value_or(list.dtype());
  const std::vector<Scalar>& numbers = list.numbers();
  for (const Scalar& number : numbers)
    check<DTypeError>(fits(number, dtype), dtype, " cannot represent the number ", number);
  Tensor y = empty(list.shape(), dtype, device, role);
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto elements = std::make_unique<T[]>(numbers.size());
    std::transform(numbers.begin(), numbers.end(), elements.get(), [](const Scalar& s) { return s.to<T>(); });
    const ConstView source(elements.get(), dtype, Device::cpu(), list.shape(), contiguous_strides(list.shape()));
    copy_across(source, y.write());
  });
  return y;
}

}  // namespace bytetape
