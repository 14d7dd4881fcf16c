#include "bytetape/autograd/ops/index.h"

#include <algorithm>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/indexing.h"

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

void check_tensor(const Tensor& x, const Tensor& index) {
  check_same_device(x, index);
  check<DTypeError>(index.dtype() != DType::boolean,
                    "the number of elements that a mask selects depends on its values; ",
                    "use where(mask, x, value), got ", describe(index));
  check<DTypeError>(index.dtype() == DType::i64, "expected indices in i64, got ", describe(index));
}

/// Checks the indices. Returns the number of dims that have none.
int check_indices(const Tensor& x, const std::vector<TensorIndex>& indices) {
  check<ValueError>(count<EllipsisType>(indices) <= 1, "expected at most one Ellipsis");
  check<ValueError>(count<Tensor>(indices) <= 1, "expected at most one index that is a tensor");
  const auto dims = static_cast<std::int64_t>(indices.size()) - count<NoneType>(indices) - count<EllipsisType>(indices);
  check(dims <= x.rank(), "expected at most ", x.rank(), " indices for ", describe(x), ", got ", dims);
  const int missing = x.rank() - static_cast<int>(dims);
  int dim = 0;
  for (const TensorIndex& i : indices) {
    if (as<NoneType>(i)) continue;
    if (as<EllipsisType>(i)) {
      dim += missing;
      continue;
    }
    const std::int64_t size = x.shape()[dim];
    if (const auto* at = as<std::int64_t>(i))
      check(*at >= -size && *at < size, "index ", *at, " is out of range in dim ", dim, " of ", describe(x));
    if (const auto* range = as<Slice>(i))
      check<ValueError>(range->step > 0, "the step of a Slice must be positive, got ", range->step);
    if (const auto* tensor = as<Tensor>(i)) check_tensor(x, *tensor);
    ++dim;
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

}  // namespace

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
      ++dim;
    }
  }
  return op.result(tensor.defined() ? select_at(y, place, tensor) : y);
}

}  // namespace bytetape
