#include "bytetape/autograd/ops/index.h"

#include <algorithm>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/indexing.h"
#include "bytetape/core/factories.h"

namespace bytetape {

namespace {

template <class T>
const T* as(const TensorIndex& index) {
  return std::get_if<T>(&index.value());
}
template <class T>
auto count(const std::vector<TensorIndex>& indices) {
  return std::count_if(indices.begin(), indices.end(), [](const TensorIndex& i) { return as<T>(i) != nullptr; });
}

/// Returns the tensor among the indices, or an undefined tensor if all are of other types.
Tensor tensor_among(const std::vector<TensorIndex>& indices) {
  for (const TensorIndex& i : indices)
    if (const auto* tensor = as<Tensor>(i)) return *tensor;
  return {};
}

bool is_mask(const Tensor& index) { return index.defined() && index.dtype() == DType::boolean; }

/// Returns the number of dims of x that an index stands for.
int dims_of(const TensorIndex& i) {
  if (as<NoneType>(i) || as<EllipsisType>(i)) return 0;
  const auto* tensor = as<Tensor>(i);
  return tensor && is_mask(*tensor) ? tensor->rank() : 1;
}

void check_tensor(const Tensor& x, int dim, const Tensor& index) {
  check_same_device(x, index);
  if (!is_mask(index)) {
    check<DTypeError>(index.dtype() == DType::i64, "expected indices in i64 or a mask, got ", describe(index));
    return;
  }
  check(index.rank() > 0, "a mask needs a dim, got ", describe(index));
  for (int d = 0; d < index.rank(); ++d)
    check(index.shape()[d] == x.shape()[dim + d], "the mask ", describe(index), " does not fit dim ", dim + d, " of ",
          describe(x));
}

/// Checks the indices. Returns the number of dims that have none.
int check_indices(const Tensor& x, const std::vector<TensorIndex>& indices) {
  check<ValueError>(count<EllipsisType>(indices) <= 1, "expected at most one Ellipsis");
  check<ValueError>(count<Tensor>(indices) <= 1, "expected at most one index that is a tensor or mask");
  int dims = 0;
  for (const TensorIndex& i : indices) dims += dims_of(i);
  check(dims <= x.rank(), "expected indices of at most ", x.rank(), " dims for ", describe(x), ", got ", dims);
  const int missing = x.rank() - dims;
  int dim = 0;
  for (const TensorIndex& i : indices) {
    if (const auto* at = as<std::int64_t>(i)) {
      const std::int64_t size = x.shape()[dim];
      check(*at >= -size && *at < size, "index ", *at, " is out of range in dim ", dim, " of ", describe(x));
    }
    if (const auto* range = as<Slice>(i))
      check<ValueError>(range->step > 0, "the step of a Slice must be positive, got ", range->step);
    if (const auto* tensor = as<Tensor>(i)) check_tensor(x, dim, *tensor);
    dim += as<EllipsisType>(i) ? missing : dims_of(i);
  }
  return missing;
}

bool is_whole(const Slice& s) { return s.start == 0 && s.stop == Slice().stop && s.step == 1; }

/// Replaces a dim of x by the dims of index.
Tensor select_at(const Tensor& x, int dim, const Tensor& index) {
  const Tensor y = index_select(x, dim, reshape(index, index.numel()));
  if (index.rank() == 1) return y;
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    if (d != dim) {
      shape.push_back(x.shape()[d]);
      continue;
    }
    for (const std::int64_t n : index.shape()) shape.push_back(n);
  }
  return reshape(y, shape);
}

/// Replaces the dims of x that a mask stands for, from `dim` on, by the elements at which it is true.
Tensor select_where(const Tensor& x, int dim, const Tensor& mask) {
  Shape shape;
  for (int d = 0; d < dim; ++d) shape.push_back(x.shape()[d]);
  shape.push_back(mask.numel());
  for (int d = dim + mask.rank(); d < x.rank(); ++d) shape.push_back(x.shape()[d]);
  return index_select(reshape(x, shape), dim, flatten(nonzero(flatten(mask))));
}

}  // namespace

constexpr OpDefinition nonzero_op{.name = "nonzero", .family = Family::copy};  // the copy to the host
Tensor nonzero(const Tensor& x) {
  const Op<nonzero_op> op(x);
  check_defined(x);
  check<DeviceError>(!x.device().is_meta, "the size of the result depends on values, which ", describe(x),
                     " does not have");
  const std::vector<bool> is_true = (x.dtype() == DType::boolean ? x : x != 0).to_vector<bool>();
  std::vector<std::int64_t> indices;
  Dims at = Dims::filled(x.rank(), 0);
  for (const bool counts : is_true) {
    if (counts) indices.insert(indices.end(), at.begin(), at.end());
    for (int d = x.rank() - 1; d >= 0 && ++at[d] == x.shape()[d]; --d) at[d] = 0;
  }
  const auto count = std::count(is_true.begin(), is_true.end(), true);
  return op.result(from_vector(indices, {count, x.rank()}, x.device()));
}

constexpr OpDefinition index_op{.name = "index", .inputs = {"x", "index"}, .kind = OpKind::composite};
Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices) {
  const Tensor tensor = tensor_among(indices);
  const Op<index_op> op(x, tensor);
  check_defined(x);
  const int missing = check_indices(x, indices);
  Tensor y = x;
  int dim = 0, place = 0;  // the next dim of y, and that of the tensor
  for (const TensorIndex& i : indices) {
    if (const auto* at = as<std::int64_t>(i)) {
      y = select(y, dim, *at);
    } else if (as<EllipsisType>(i)) {
      dim += missing;
    } else if (as<NoneType>(i)) {
      y = unsqueeze(y, dim++);
    } else {
      if (const auto* range = as<Slice>(i); range && !is_whole(*range)) y = slice(y, dim, *range);
      if (as<Tensor>(i)) place = dim;
      dim += dims_of(i);
    }
  }
  if (is_mask(tensor)) return op.result(select_where(y, place, tensor));
  if (tensor.defined()) return op.result(select_at(y, place, tensor));
  return op.result(y.is_same(x) ? view(x, x.shape()) : y);  // a view, to which one can assign
}

}  // namespace bytetape
