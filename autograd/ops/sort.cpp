#include "bytetape/autograd/ops/sort.h"

#include "bytetape/autograd/op.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/sort.h"

namespace bytetape {

using enum AttributeType;

namespace {

// The gradients of sort move elements by its indices. pick and place are each other's gradient. gather and scatter_add
// could do the same, but must allow for repeated indices.
Tensor pick(const Tensor& x, const Tensor& index, int dim);
Tensor place(const Tensor& x, const Tensor& index, int dim, const Shape& shape);

struct PickBackward final : Node {
  Saved index{this};
  int dim = 0;
  Shape shape;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = place(gy[0], index.get(), dim, shape); }
};
constexpr OpDefinition pick_op{
    .name = "sort_pick", .inputs = {"x", "index"}, .attributes = {{"dim", integer}}, .family = Family::sort};
/// y[i] = x[index[i]] along dim.
Tensor pick(const Tensor& x, const Tensor& index, int dim) {
  const Op<pick_op> op(x, index, dim);
  const Tensor y = empty_like(index, x.dtype());
  run<&SortKernels::pick>(x.device(), with_dim(x.read()), with_dim(index.read()), dim, with_dim(y.write()));
  if (auto* node = record<PickBackward>(y, x)) {
    node->index.save(index);
    node->dim = dim;
    node->shape = x.shape();
  }
  return y;
}

struct PlaceBackward final : Node {
  Saved index{this};
  int dim = 0;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = pick(gy[0], index.get(), dim); }
};
constexpr OpDefinition place_op{.name = "sort_place",
                                .inputs = {"x", "index"},
                                .attributes = {{"dim", integer}, {"shape", integers}},
                                .family = Family::sort};
/// y[index[i]] = x[i] along dim, and 0 elsewhere.
Tensor place(const Tensor& x, const Tensor& index, int dim, const Shape& shape) {
  const Op<place_op> op(x, index, dim, shape);
  const bool fills = index.shape() == shape;
  const Tensor y = fills ? empty_like(index, x.dtype()) : zeros(shape, x.dtype(), x.device());
  run<&SortKernels::place>(x.device(), with_dim(x.read()), with_dim(index.read()), dim, with_dim(y.write()));
  if (auto* node = record<PlaceBackward>(y, x)) {
    node->index.save(index);
    node->dim = dim;
  }
  return y;
}

struct SortBackward final : Node {
  Saved indices{this};
  int dim = 0;
  Shape shape;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = place(gy[0], indices.get(), dim, shape); }
};

/// The uninitialised result with the first k elements of each row of x.
Tensor first_k(const Tensor& x, int dim, std::int64_t k, DType dtype) {
  Shape shape = x.shape();
  if (x.rank() > 0) shape[dim] = k;
  return empty(shape, suggest_memory_format(x), dtype, x.device());
}

ValuesAndIndices sort_first(const Tensor& x, int dim, std::int64_t k, bool descending) {
  const Tensor values = first_k(x, dim, k, x.dtype()), indices = first_k(x, dim, k, DType::i64);
  run_planned<&SortKernels::sort>(
      x.device(), {with_dim(x.read()), dim, descending, with_dim(values.write()), with_dim(indices.write())});
  if (auto* node = record_outputs<SortBackward>({values, indices}, x)) {
    node->indices.save(indices);
    node->dim = dim;
    node->shape = x.shape();
  }
  return {values, indices};
}

/// The size of dim. A scalar is a row of one element.
std::int64_t row_size(const Tensor& x, int dim) { return x.rank() == 0 ? 1 : x.size(dim); }

}  // namespace

constexpr OpDefinition sort_op{.name = "sort",
                               .outputs = {"values", "indices"},
                               .attributes = {{"dim", integer}, {"descending", boolean}},
                               .family = Family::sort};
ValuesAndIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  const Op<sort_op> op(x, dim, descending);
  check_defined(x);
  const int d = wrap_dim(dim, x.shape());
  return sort_first(x, d, row_size(x, d), descending);
}

constexpr OpDefinition argsort_op{.name = "argsort",
                                  .outputs = {"indices"},
                                  .attributes = {{"dim", integer}, {"descending", boolean}},
                                  .family = Family::sort};
Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  const Op<argsort_op> op(x, dim, descending);
  check_defined(x);
  const int d = wrap_dim(dim, x.shape());
  const Tensor indices = first_k(x, d, row_size(x, d), DType::i64);
  run_planned<&SortKernels::sort>(x.device(), {with_dim(x.read()), d, descending, View(), with_dim(indices.write())});
  return op.result(indices);
}

constexpr OpDefinition topk_op{.name = "topk",
                               .outputs = {"values", "indices"},
                               .attributes = {{"k", integer}, {"dim", integer}, {"largest", boolean}},
                               .family = Family::sort};
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest) {
  const Op<topk_op> op(x, k, dim, largest);
  check_defined(x);
  const int d = wrap_dim(dim, x.shape());
  const std::int64_t least = x.rank() == 0 ? 1 : 0, most = row_size(x, d);
  check<ValueError>(k >= least && k <= most, "k must be from ", least, " to ", most, ", the size of dim ", dim, " of ",
                    describe(x), ", got ", k);
  return sort_first(x, d, k, largest);
}

}  // namespace bytetape
