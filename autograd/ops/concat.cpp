#include "bytetape/autograd/ops/concat.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/copy.h"

namespace bytetape {

using enum AttributeType;

namespace {

// Checks that all tensors agree with the first in dtype, device, rank and all sizes except that of `free_dim`.
void check_alike(const std::vector<Tensor>& tensors, int free_dim) {
  const Tensor& first = tensors[0];
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    check<DeviceError>(x.device() == first.device(), "tensor ", i, ", ", describe(x), ", and tensor 0, ",
                       describe(first), ", are on different devices");
    check<DTypeError>(x.dtype() == first.dtype(), "tensor ", i, ", ", describe(x), ", and tensor 0, ", describe(first),
                      ", have different dtypes; convert one with to(x, dtype)");
    bool fits = x.rank() == first.rank();
    for (int d = 0; fits && d < x.rank(); ++d) fits = d == free_dim || x.shape()[d] == first.shape()[d];
    check(fits, "expected tensor ", i, " to have the shape of tensor 0, ", describe(first),
          free_dim < 0 ? "" : detail::concat(", except in dim ", free_dim), ", got ", describe(x));
  }
}

void check_all_defined(const std::vector<Tensor>& tensors) {
  check<ValueError>(!tensors.empty(), "expected at least one tensor, got none");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    check<ValueError>(tensors[i].defined(), "tensor ", i, " is undefined");
}

int dim_to_split(const Tensor& x, std::int64_t dim) {
  check_defined(x);
  check(x.rank() > 0, "a scalar has no dim to split, got ", describe(x));
  return wrap_dim(dim, x.shape());
}

/// Under Autocast, converts all tensors to their widest floating dtype.
std::vector<Tensor> promoted(std::vector<Tensor> tensors) {
  DType widest = tensors[0].dtype();
  for (const Tensor& x : tensors) {
    if (!autocast_enabled() || !is_floating(x.dtype()) || !is_floating(widest)) return tensors;
    widest = bytetape::promoted(widest, x.dtype());
  }
  for (Tensor& x : tensors) x = to(x, widest);
  return tensors;
}

/// Copies tensors into y, behind each other along dim. Row-major ones that fill row-major parts of y take one launch
/// together.
void copy_parts(const std::vector<Tensor>& tensors, const Tensor& y, int dim) {
  std::vector<ConstView> from;
  std::vector<View> to;
  std::int64_t start = 0;
  for (const Tensor& x : tensors) {
    const Tensor place = y.alias(x.shape(), y.strides(), start * y.strides()[dim]);
    start += x.shape()[dim];
    if (!is_floating(x.dtype()) || !x.is_contiguous() || !place.is_contiguous() || tensors.size() < 3) {
      run<&CopyKernels::copy>(y.device(), x.read(), place.write());
      continue;
    }
    from.push_back(x.read());
    to.push_back(place.write());
  }
  if (!to.empty()) run<&CopyKernels::copy_all>(y.device(), from, to);
}

}  // namespace

struct CatBackward final : Node {
  int dim = 0;
  std::vector<std::int64_t> lengths;
  void backward(const Grads& gy, InputGrads& gx) override {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < lengths.size(); start += lengths[i++])
      if (gx.needs(i)) gx[i] = narrow(gy[0], dim, start, lengths[i]);
  }
};
constexpr OpDefinition cat_op{.name = "cat",
                              .inputs = {"tensors"},
                              .attributes = {{"dim", integer}},
                              .family = Family::copy,
                              .autocast = AutocastClass::widest};
Tensor cat(const std::vector<Tensor>& list, std::int64_t dim) {
  const Op<cat_op> op(list, dim);
  check_all_defined(list);
  const std::vector<Tensor> tensors = promoted(list);
  check(tensors[0].rank() > 0, "scalars have no dim to join, got ", describe(tensors[0]), "; use stack");
  const int d = wrap_dim(dim, tensors[0].shape());
  check_alike(tensors, d);
  Shape shape = tensors[0].shape();
  shape[d] = 0;
  for (const Tensor& x : tensors) shape[d] += x.shape()[d];
  const Tensor& first = tensors[0];
  Tensor y = empty(shape, suggest_memory_format(first), first.dtype(), first.device());
  copy_parts(tensors, y, d);
  if (auto* node = record_list<CatBackward>(y, tensors)) {
    node->dim = d;
    for (const Tensor& x : tensors) node->lengths.push_back(x.shape()[d]);
  }
  return y;
}

constexpr OpDefinition stack_op{.name = "stack",
                                .inputs = {"tensors"},
                                .attributes = {{"dim", integer}},
                                .kind = OpKind::composite,
                                .autocast = AutocastClass::widest};
Tensor stack(const std::vector<Tensor>& list, std::int64_t dim) {
  const Op<stack_op> op(list, dim);
  check_all_defined(list);
  const std::vector<Tensor> tensors = promoted(list);
  check_alike(tensors, -1);
  const int d = wrap_dim(dim, tensors[0].shape(), 1);
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(unsqueeze(x, d));
  return op.result(cat(parts, d));
}

/// Returns the tensor of which these parts, adjacent along dim, are views. Undefined if they are not such views.
static Tensor whole_of(const Grads& parts, int dim) {
  Tensor first = parts[0];
  if (!first.defined()) return {};
  Shape shape = first.shape();
  std::int64_t end = first.storage_offset();
  shape[dim] = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    if (!part.defined() || part.strides() != first.strides() || part.dtype() != first.dtype() ||
        &part.storage() != &first.storage() || part.storage_offset() != end)
      return {};
    shape[dim] += part.shape()[dim];
    end += part.shape()[dim] * part.strides()[dim];
  }
  return first.alias(shape, first.strides(), first.storage_offset());
}

struct SplitBackward final : Node {
  int dim = 0;
  bool takes_undefined() const override { return true; }
  void backward(const Grads& gy, InputGrads& gx) override {
    // Attention writes the gradients of packed projections side by side.
    if (!grad_enabled())
      if (Tensor whole = whole_of(gy, dim); whole.defined()) {
        gx[0] = whole;
        return;
      }
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      parts.push_back(gy[i].defined() ? gy[i] : zeros(outputs[i].shape, outputs[i].dtype, outputs[i].device));
    gx[0] = cat(parts, dim);
  }
};
/// Splits x. dim and sizes have been checked.
static std::vector<Tensor> split_into(const Tensor& x, int dim, const std::vector<std::int64_t>& sizes) {
  std::vector<Tensor> parts;
  {
    const NoGrad no_grad;
    std::int64_t start = 0;
    for (const std::int64_t size : sizes) {
      parts.push_back(narrow(x, dim, start, size));
      start += size;
    }
  }
  if (const Ref<SplitBackward> node = prepare<SplitBackward>(x)) {
    for (const Tensor& part : parts) detail::add_output(*node, part);
    node->dim = dim;
  }
  return parts;
}
/// Returns sizes of `size` each. The last may be smaller.
static std::vector<std::int64_t> even_sizes(std::int64_t all, std::int64_t size) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t start = 0; start < all || start == 0; start += size) sizes.push_back(std::min(size, all - start));
  return sizes;
}

constexpr OpDefinition split_op{.name = "split",
                                .outputs = {"parts"},
                                .attributes = {{"split_size", integer}, {"dim", integer}},
                                .kind = OpKind::composite};
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t dim) {
  const Op<split_op> op(x, split_size, dim);
  const int d = dim_to_split(x, dim);
  check<ValueError>(split_size > 0, "split_size must be positive, got ", split_size);
  return op.results(split_into(x, d, even_sizes(x.size(d), split_size)));
}

std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, std::int64_t dim) {
  return split(x, std::vector<std::int64_t>(sizes), dim);
}
constexpr OpDefinition split_sizes_op{.name = "split",
                                      .outputs = {"parts"},
                                      .attributes = {{"sizes", integers}, {"dim", integer}},
                                      .kind = OpKind::composite};
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim) {
  const Op<split_sizes_op> op(x, sizes, dim);
  const int d = dim_to_split(x, dim);
  std::int64_t total = 0;
  bool fits = !sizes.empty();
  for (const std::int64_t size : sizes) {
    fits = fits && size >= 0 && size <= x.size(d) - total;
    if (fits) total += size;
  }
  check(fits && total == x.size(d), "expected sizes that are not negative and add up to ", x.size(d),
        ", the size of dim ", dim, " of ", describe(x), ", got ", sizes.size(), " sizes that do not");
  return op.results(split_into(x, d, sizes));
}

constexpr OpDefinition chunk_op{.name = "chunk",
                                .outputs = {"parts"},
                                .attributes = {{"chunks", integer}, {"dim", integer}},
                                .kind = OpKind::composite};
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim) {
  const Op<chunk_op> op(x, chunks, dim);
  const int d = dim_to_split(x, dim);
  check<ValueError>(chunks > 0, "chunks must be positive, got ", chunks);
  const std::int64_t size = x.size(d) / chunks + (x.size(d) % chunks != 0);
  const std::vector<std::int64_t> none(static_cast<std::size_t>(chunks), 0);
  return op.results(split_into(x, d, size == 0 ? none : even_sizes(x.size(d), size)));
}

}  // namespace bytetape
