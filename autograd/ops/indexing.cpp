#include "bytetape/autograd/ops/indexing.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/indexing.h"

namespace bytetape {

using enum AttributeType;

namespace {

void check_indices(const Tensor& index) {
  check<DTypeError>(index.dtype() == DType::i64, "expected indices in i64, got ", describe(index));
}

/// The uninitialised result of x's shape with `size` slices along dim.
Tensor with_slices(const Tensor& x, int dim, std::int64_t size) {
  Shape shape = x.shape();
  shape[dim] = size;
  return empty(shape, suggest_memory_format(x), x.dtype(), x.device());
}

Tensor index_sum(const Tensor& x, int dim, const Tensor& index, std::int64_t slices);

}  // namespace

struct IndexSelectBackward final : Node {
  Saved index{this};
  int dim = 0;
  std::int64_t slices = 0;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = index_sum(gy[0], dim, index.get(), slices); }
};
constexpr OpDefinition index_select_op{.name = "index_select",
                                       .inputs = {"x", "index"},
                                       .attributes = {{"dim", integer}},
                                       .family = Family::indexing,
                                       .flop = no_flop};
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const Op<index_select_op> op(x, index, dim);
  check_same_device(x, index);
  check_indices(index);
  check(x.rank() > 0, "a scalar has no dim to select from, got ", describe(x));
  check(index.rank() == 1, "expected an index of rank 1, got ", describe(index));
  const int d = wrap_dim(dim, x.shape());
  Tensor y = with_slices(x, d, index.size(0));
  run<&IndexingKernels::index_select>(x.device(), IndexSelectArgs{x.read(), index.read(), d, y.write()});
  if (auto* node = record<IndexSelectBackward>(y, x)) {
    node->index.save(index);
    node->dim = d;
    node->slices = x.size(d);
  }
  return y;
}

namespace {

struct IndexSumBackward final : Node {
  Saved index{this};
  int dim = 0;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = index_select(gy[0], dim, index.get()); }
};
constexpr OpDefinition index_sum_op{.name = "index_sum",
                                    .inputs = {"x", "index"},
                                    .attributes = {{"dim", integer}, {"slices", integer}},
                                    .family = Family::indexing,
                                    .flop = one_per_input};
/// As many slices, each the sum of those of x that the index says belong there: what index_select spread.
Tensor index_sum(const Tensor& x, int dim, const Tensor& index, std::int64_t slices) {
  const Op<index_sum_op> op(x, index, dim, slices);
  Tensor y = with_slices(x, dim, slices);
  run_planned<&IndexingKernels::index_sum>(x.device(), {x.read(), index.read(), dim, y.write()});
  if (auto* node = record<IndexSumBackward>(y, x)) {
    node->index.save(index);
    node->dim = dim;
  }
  return y;
}

}  // namespace

constexpr OpDefinition one_hot_op{
    .name = "one_hot", .attributes = {{"num_classes", integer}}, .family = Family::indexing, .flop = no_flop};
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
