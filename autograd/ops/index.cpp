#include "bytetape/autograd/ops/index.h"

#include <algorithm>
#include <utility>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/indexing.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/indexing.h"

namespace bytetape {

using enum AttributeType;

namespace {

template <class T>
const T* as(const TensorIndex& index) {
  return std::get_if<T>(&index.value());
}
template <class T>
auto count(const std::vector<TensorIndex>& indices) {
  return std::count_if(indices.begin(), indices.end(), [](const TensorIndex& i) { return as<T>(i) != nullptr; });
}

std::vector<Tensor> tensors_among(const std::vector<TensorIndex>& indices) {
  std::vector<Tensor> tensors;
  for (const TensorIndex& i : indices)
    if (const auto* tensor = as<Tensor>(i)) tensors.push_back(*tensor);
  return tensors;
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

/// A tensor among the indices: elements of dims from `dim` on, by their numbers in row-major order.
struct Selection {
  int dim, dims;
  Tensor index;  // i64; negative numbers count from the end
};

/// Returns the selection of a tensor at a dim of x. The numbers of a mask are those of its true elements.
Selection select_by(const Tensor& tensor, int dim) {
  if (!is_mask(tensor)) return {dim, 1, tensor};
  return {dim, tensor.rank(), flatten(nonzero(flatten(tensor)))};
}

Shape broadcast_shape(const std::vector<Selection>& all) {
  Shape shape;
  for (const Selection& s : all)
    check(broadcast_into(shape, s.index.shape()), "the indices ", describe(all[0].index), " and ", describe(s.index),
          " do not broadcast together");
  return shape;
}

/// Permutes x so that the dims of the selections come first, if dims of others lie between them.
Tensor with_adjacent_dims(const Tensor& x, std::vector<Selection>& all) {
  Dims selected, others;
  for (int d = 0; d < x.rank(); ++d) {
    const bool is_selected =
        std::any_of(all.begin(), all.end(), [&](const Selection& s) { return d >= s.dim && d < s.dim + s.dims; });
    (is_selected ? selected : others).push_back(d);
  }
  if (selected.back() - selected[0] == selected.size() - 1) return x;
  int next = 0;
  for (Selection& s : all) s.dim = std::exchange(next, next + s.dims);
  for (const std::int64_t d : others) selected.push_back(d);
  return permute(x, selected);
}

constexpr OpDefinition flat_index_op{
    .name = "flat_index", .inputs = {"base", "index"}, .attributes = {{"size", integer}}, .family = Family::indexing};
/// Returns base * size + index, all i64 (n), where a negative index counts from the end. An undefined base counts as 0.
Tensor flat_index(const Tensor& base, const Tensor& index, std::int64_t size) {
  const Op<flat_index_op> op(base, index, size);
  const Tensor y = empty(index.shape(), DType::i64, index.device());
  run<&IndexingKernels::flat_index>(
      y.device(), FlatIndexArgs{base.defined() ? base.read() : ConstView(), index.read(), size, y.write()});
  return op.result(y);
}

/// Replaces the dims of the selections by those of their indices.
Tensor select_elements(const Tensor& given, std::vector<Selection> all) {
  const Tensor x = with_adjacent_dims(given, all);
  const Shape selected = broadcast_shape(all);
  const int first = all[0].dim, end = all.back().dim + all.back().dims;
  Shape merged, result;  // of x with one dim for the selected ones, and of the result
  for (int d = 0; d < first; ++d) merged.push_back(x.shape()[d]), result.push_back(x.shape()[d]);
  merged.push_back(1);
  for (const std::int64_t n : selected) result.push_back(n);
  for (int d = end; d < x.rank(); ++d) merged.push_back(x.shape()[d]), result.push_back(x.shape()[d]);
  Tensor flat;
  for (const Selection& s : all) {
    std::int64_t size = 1;
    for (int d = s.dim; d < s.dim + s.dims; ++d) size *= x.shape()[d];
    merged[first] *= size;
    flat = flat_index(flat, reshape(expand(s.index, selected), numel(selected)), size);
  }
  return reshape(index_select(reshape(x, merged), first, flat), result);
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

constexpr OpDefinition index_op{.name = "index", .inputs = {"x", "tensors"}, .kind = OpKind::composite};
Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices) {
  const Op<index_op> op(x, tensors_among(indices));
  check_defined(x);
  const int missing = check_indices(x, indices);
  Tensor y = x;
  std::vector<Selection> selections;
  int dim = 0;  // the next dim of y
  for (const TensorIndex& i : indices) {
    if (const auto* at = as<std::int64_t>(i)) {
      y = select(y, dim, *at);
    } else if (as<EllipsisType>(i)) {
      dim += missing;
    } else if (as<NoneType>(i)) {
      y = unsqueeze(y, dim++);
    } else {
      if (const auto* range = as<Slice>(i); range && !is_whole(*range)) y = slice(y, dim, *range);
      if (const auto* tensor = as<Tensor>(i)) selections.push_back(select_by(*tensor, dim));
      dim += dims_of(i);
    }
  }
  if (!selections.empty()) return op.result(select_elements(y, std::move(selections)));
  return op.result(y.is_same(x) ? view(x, x.shape()) : y);  // a view, to which one can assign
}

}  // namespace bytetape
