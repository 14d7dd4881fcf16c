#include "bytetape/autograd/ops/indexing.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/gather.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/indexing.h"

namespace bytetape {

using enum AttributeType;

namespace {

void check_indices(const Tensor& index) {
  check<DTypeError>(index.dtype() == DType::i64, "expected indices in i64, got ", describe(index));
}

/// Checks an index of slices of x, and returns the dim.
int check_slices(const Tensor& x, std::int64_t dim, const Tensor& index) {
  check_same_device(x, index);
  check_indices(index);
  check(x.rank() > 0, "a scalar has no dim to select from, got ", describe(x));
  check(index.rank() == 1, "expected an index of rank 1, got ", describe(index));
  return wrap_dim(dim, x.shape());
}

/// The uninitialised result of x's shape with `size` slices along dim.
Tensor with_slices(const Tensor& x, int dim, std::int64_t size) {
  Shape shape = x.shape();
  shape[dim] = size;
  return empty(shape, suggest_memory_format(x), x.dtype(), x.device());
}

Tensor index_sum(const Tensor& x, int dim, const Tensor& index, std::int64_t slices, std::int64_t skipped);

}  // namespace

struct IndexSelectBackward final : Node {
  Saved index{this};
  int dim = 0;
  std::int64_t slices = 0, skipped = no_index;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = index_sum(gy[0], dim, index.get(), slices, skipped);
  }
};
/// The slices of the index `skipped` are 0.
static Tensor select_slices(const Tensor& x, int dim, const Tensor& index, std::int64_t skipped) {
  Tensor y = with_slices(x, dim, index.size(0));
  run<&IndexingKernels::index_select>(x.device(), IndexSelectArgs{x.read(), index.read(), dim, y.write(), skipped});
  if (auto* node = record<IndexSelectBackward>(y, x)) {
    node->index.save(index);
    node->dim = dim;
    node->slices = x.size(dim);
    node->skipped = skipped;
  }
  return y;
}
constexpr OpDefinition index_select_op{
    .name = "index_select", .inputs = {"x", "index"}, .attributes = {{"dim", integer}}, .family = Family::indexing};
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const Op<index_select_op> op(x, index, dim);
  return select_slices(x, check_slices(x, dim, index), index, no_index);
}

namespace {

struct IndexSumBackward final : Node {
  Saved index{this};
  int dim = 0;
  std::int64_t skipped = no_index;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor at = index.get();
    const Op<index_select_op> op(gy[0], at, dim);
    gx[0] = select_slices(gy[0], dim, at, skipped);
  }
};
constexpr OpDefinition index_sum_op{.name = "index_sum",
                                    .inputs = {"x", "index"},
                                    .attributes = {{"dim", integer}, {"slices", integer}},
                                    .family = Family::indexing};
/// The gradient of index_select: slice index[i] of the result is the sum of all slices i of x with that index. Slice
/// `skipped` is 0.
Tensor index_sum(const Tensor& x, int dim, const Tensor& index, std::int64_t slices, std::int64_t skipped) {
  const Op<index_sum_op> op(x, index, dim, slices);
  Tensor y = with_slices(x, dim, slices);
  run_planned<&IndexingKernels::index_sum>(x.device(), {x.read(), index.read(), dim, y.write(), skipped});
  if (auto* node = record<IndexSumBackward>(y, x)) {
    node->index.save(index);
    node->dim = dim;
    node->skipped = skipped;
  }
  return y;
}

/// Runs an op that writes src into slices of y: x itself if in place, else a copy of x.
template <auto Kernel, class Rule>
Tensor write_slices(const Tensor& x, std::int64_t dim, const Tensor& given, const Tensor& given_src, bool in_place) {
  const int d = check_slices(x, dim, given);
  check_same_type(x, given_src);
  Shape shape = x.shape();
  shape[d] = given.size(0);
  check(given_src.shape() == shape, "expected src of shape ", shape, ", for ", describe(x), " and ", describe(given),
        ", got ", describe(given_src));
  const Tensor index = detail::apart_from(x, given, in_place), src = detail::apart_from(x, given_src, in_place);
  if (in_place) check_in_place(x, {&index, &src});
  const Tensor y = in_place ? x : detail::copy_of(x);
  run_planned<Kernel>(x.device(), {src.read(), index.read(), d, y.write()});
  if (auto* node = in_place ? record_in_place<Rule>(y, x, src) : record<Rule>(y, x, src)) node->keep(index, d);
  return y;
}

}  // namespace

struct IndexAddBackward final : Node {
  Saved index{this};
  int dim = 0;
  void keep(const Tensor& i, int d) {
    if (needs(1)) index.save(i);
    dim = d;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = gy[0];
    if (gx.needs(1)) gx[1] = index_select(gy[0], dim, index.get());
  }
};
constexpr OpDefinition index_add_op{
    .name = "index_add", .inputs = {"x", "index", "src"}, .attributes = {{"dim", integer}}, .family = Family::indexing};
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const Op<index_add_op> op(x, index, src, dim);
  elementwise::check_arithmetic(x);
  return write_slices<&IndexingKernels::index_add, IndexAddBackward>(x, dim, index, src, false);
}
Tensor index_add_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const Op<in_place_of<index_add_op>> op(x, index, src, dim);
  elementwise::check_arithmetic(x);
  return write_slices<&IndexingKernels::index_add, IndexAddBackward>(x, dim, index, src, true);
}

struct IndexCopyBackward final : Node {
  Saved index{this};
  int dim = 0;
  void keep(const Tensor& i, int d) {
    index.save(i);
    dim = d;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor at = index.get(), &g = gy[0];
    Shape slices = Dims::filled(g.rank(), 1);
    slices[dim] = at.size(0);
    if (gx.needs(0)) {
      Shape shape = g.shape();
      shape[dim] = at.size(0);
      gx[0] = index_copy(g, dim, at, expand(zeros({}, g.dtype(), g.device()), shape));
    }
    if (gx.needs(1)) {
      const Tensor is_kept = reshape(detail::is_last(at, 0, g.size(dim)), slices);
      gx[1] = where(is_kept, index_select(g, dim, at), 0);
    }
  }
};
constexpr OpDefinition index_copy_op{.name = "index_copy",
                                     .inputs = {"x", "index", "src"},
                                     .attributes = {{"dim", integer}},
                                     .family = Family::indexing};
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const Op<index_copy_op> op(x, index, src, dim);
  return write_slices<&IndexingKernels::index_copy, IndexCopyBackward>(x, dim, index, src, false);
}
Tensor index_copy_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const Op<in_place_of<index_copy_op>> op(x, index, src, dim);
  return write_slices<&IndexingKernels::index_copy, IndexCopyBackward>(x, dim, index, src, true);
}

struct EmbeddingBackward final : Node {
  Saved index{this};
  std::int64_t rows = 0, padding = no_index;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor at = index.get();
    const std::int64_t places = at.numel(), columns = gy[0].size(-1);
    const Tensor index_of_places = reshape(at, places), g = reshape(gy[0], {places, columns});
    if (const Tensor sum = gx.so_far(0, {&g, &index_of_places}); sum.defined()) {
      run_planned<&IndexingKernels::index_add>(sum.device(),
                                               {g.read(), index_of_places.read(), 0, sum.write(), padding});
      gx[0] = sum;
      return;
    }
    gx[0] = index_sum(g, 0, index_of_places, rows, padding);
  }
};
constexpr OpDefinition embedding_op{.name = "embedding",
                                    .inputs = {"index", "weight"},
                                    .attributes = {{"padding_idx", integers}},
                                    .family = Family::indexing};
Tensor embedding(const Tensor& index, const Tensor& weight, EmbeddingOptions options) {
  const Op<embedding_op> op(index, weight, options.padding_idx ? Dims{*options.padding_idx} : Dims{});
  check_same_device(index, weight);
  check_indices(index);
  check(weight.rank() == 2, "expected a weight (n, d), got ", describe(weight));
  const std::int64_t rows = weight.size(0), given = options.padding_idx.value_or(no_index);
  const std::int64_t padding = options.padding_idx && given < 0 ? given + rows : given;
  check<ValueError>(!options.padding_idx || (padding >= 0 && padding < rows), "padding_idx ", given,
                    " is out of range for the weight ", describe(weight));
  Shape shape = index.shape();
  shape.push_back(weight.size(1));
  const Tensor places = reshape(index, index.numel());
  Tensor y = empty({places.size(0), weight.size(1)}, weight.dtype(), weight.device());
  run<&IndexingKernels::index_select>(weight.device(), IndexSelectArgs{weight.read(), places.read(), 0, y.write()});
  y = y.alias(shape, contiguous_strides(shape), 0);
  if (auto* node = record<EmbeddingBackward>(y, weight)) {
    node->index.save(index);
    node->rows = rows;
    node->padding = padding;
  }
  return y;
}

constexpr OpDefinition one_hot_op{
    .name = "one_hot", .attributes = {{"num_classes", integer}}, .family = Family::indexing};
Tensor one_hot(const Tensor& x, std::int64_t num_classes) {
  const Op<one_hot_op> op(x, num_classes);
  check_defined(x);
  check_indices(x);
  check<ValueError>(num_classes > 0, "num_classes must be positive, got ", num_classes);
  Shape shape = x.shape();
  shape.push_back(num_classes);
  const Tensor rows = reshape(x, x.numel());
  Tensor y = empty({x.numel(), num_classes}, DType::i64, x.device());
  run<&IndexingKernels::one_hot>(x.device(), rows.read(), y.write());
  return op.result(view(y, shape));
}

}  // namespace bytetape
