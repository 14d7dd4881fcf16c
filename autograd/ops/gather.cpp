#include "bytetape/autograd/ops/gather.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/gather.h"

namespace bytetape {

using enum AttributeType;

namespace {

/// Checks an index into x, and returns the dim.
int check_index(const Tensor& x, std::int64_t dim, const Tensor& index) {
  check_same_device(x, index);
  check<DTypeError>(index.dtype() == DType::i64, "expected indices in i64, got ", describe(index));
  const int d = wrap_dim(dim, x.shape());
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == d || index.shape()[i] <= x.shape()[i];
  check(fits, "expected an index with the dims of ", describe(x), ", and not larger except in dim ", d, ", got ",
        describe(index));
  return d;
}

}  // namespace

static Tensor scatter_sum(const Tensor& x, int dim, const Tensor& index, const Shape& shape);

struct GatherBackward final : Node {
  Saved index{this};
  int dim = 0;
  Shape shape;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = scatter_sum(gy[0], dim, index.get(), shape); }
};
constexpr OpDefinition gather_op{
    .name = "gather", .inputs = {"x", "index"}, .attributes = {{"dim", integer}}, .family = Family::gather};
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const Op<gather_op> op(x, index, dim);
  const int d = check_index(x, dim, index);
  Tensor y = empty(index.shape(), x.dtype(), x.device());
  run<&GatherKernels::gather>(x.device(),
                              GatherArgs{with_dim(x.read()), with_dim(index.read()), d, with_dim(y.write())});
  if (auto* node = record<GatherBackward>(y, x)) {
    node->index.save(index);
    node->dim = d;
    node->shape = x.shape();
  }
  return y;
}

struct ScatterSumBackward final : Node {
  Saved index{this};
  int dim = 0;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gather(gy[0], dim, index.get()); }
};
constexpr OpDefinition scatter_sum_op{.name = "scatter_sum",
                                      .inputs = {"x", "index"},
                                      .attributes = {{"dim", integer}, {"shape", integers}},
                                      .family = Family::gather};
/// The gradient of gather: scatter_add() of x into zeros.
static Tensor scatter_sum(const Tensor& x, int dim, const Tensor& index, const Shape& shape) {
  const Op<scatter_sum_op> op(x, index, dim, shape);
  Tensor y = zeros(shape, x.dtype(), x.device());
  run_planned<&GatherKernels::scatter_add>(
      x.device(), {with_dim(x.read()), with_dim(index.read()), dim, with_dim(y.write()), false});
  if (auto* node = record<ScatterSumBackward>(y, x)) {
    node->index.save(index);
    node->dim = dim;
  }
  return y;
}

Tensor detail::is_last(const Tensor& index, std::int64_t dim, std::int64_t size) {
  Shape along = Dims::filled(index.rank(), 1), shape = index.shape();
  if (index.rank() > 0) along[static_cast<int>(dim)] = index.size(dim), shape[static_cast<int>(dim)] = size;
  const Tensor numbers = arange(numel(along), DType::i64, index.device()),
               places = expand(reshape(numbers, along), index.shape());
  return eq(gather(scatter(zeros(shape, DType::i64, index.device()), dim, index, places), dim, index), places);
}

namespace {

/// Returns the part of src that belongs to index.
Tensor part_of(const Tensor& src, const Tensor& index) {
  bool fits = src.rank() == index.rank();
  for (int i = 0; fits && i < src.rank(); ++i) fits = index.shape()[i] <= src.shape()[i];
  check(fits, "expected an index that is not larger than src, ", describe(src), ", in any dim, got ", describe(index));
  Tensor part = src;
  for (int i = 0; i < src.rank(); ++i)
    if (src.shape()[i] != index.shape()[i]) part = narrow(part, i, 0, index.shape()[i]);
  return part;
}

/// Runs an op that writes src into y: x itself if in place, else a copy of x.
template <auto Kernel, class Rule>
Tensor write_elements(const Tensor& x, std::int64_t dim, const Tensor& given, const Operand& src, bool in_place) {
  const int d = check_index(x, dim, given);
  if (src.is_number())
    elementwise::check_fits(src.number(), x);
  else
    check_same_type(x, src.tensor());
  const Tensor index = detail::apart_from(x, given, in_place),
               from = src.is_number() ? Tensor() : detail::apart_from(x, part_of(src.tensor(), given), in_place);
  if (in_place) check_in_place(x, {&index, &from});
  const Tensor y = in_place ? x : detail::copy_of(x);
  const ConstView read_from =
      src.is_number() ? ConstView::constant(src.number(), x.dtype(), x.device(), index.shape()) : from.read();
  run_planned<Kernel>(x.device(), {with_dim(read_from), with_dim(index.read()), d, with_dim(y.write()), in_place});
  if (auto* node = in_place ? record_in_place<Rule>(y, x, from) : record<Rule>(y, x, from)) node->keep(index, d);
  return y;
}

}  // namespace

struct ScatterBackward final : Node {
  Saved index{this};
  int dim = 0;
  void keep(const Tensor& i, int d) {
    index.save(i);
    dim = d;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor at = index.get(), &g = gy[0];
    if (gx.needs(0)) gx[0] = scatter(g, dim, at, 0);
    if (!gx.needs(1)) return;
    const std::int64_t size = g.rank() > 0 ? g.size(dim) : 1;
    gx[1] = where(detail::is_last(at, dim, size), gather(g, dim, at), 0);
  }
};
constexpr OpDefinition scatter_op{
    .name = "scatter", .inputs = {"x", "index", "src"}, .attributes = {{"dim", integer}}, .family = Family::gather};
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& src) {
  const Op<scatter_op> op(x, index, src, dim);
  return write_elements<&GatherKernels::scatter, ScatterBackward>(x, dim, index, src, false);
}
Tensor scatter_(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& src) {
  const Op<in_place_of<scatter_op>> op(x, index, src, dim);
  return write_elements<&GatherKernels::scatter, ScatterBackward>(x, dim, index, src, true);
}

struct ScatterAddBackward final : Node {
  Saved index{this};
  int dim = 0;
  void keep(const Tensor& i, int d) {
    if (needs(1)) index.save(i);
    dim = d;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = gy[0];
    if (gx.needs(1)) gx[1] = gather(gy[0], dim, index.get());
  }
};
constexpr OpDefinition scatter_add_op{.name = "scatter_add",
                                      .inputs = {"x", "index", "src"},
                                      .attributes = {{"dim", integer}},
                                      .family = Family::gather,
                                      .autocast = AutocastClass::widest};
Tensor scatter_add(const Tensor& given, std::int64_t dim, const Tensor& index, const Tensor& given_src) {
  const Op<scatter_add_op> op(given, index, given_src, dim);
  const auto [x, src] = promoted_pair(given, given_src);
  elementwise::check_arithmetic(x);
  return write_elements<&GatherKernels::scatter_add, ScatterAddBackward>(x, dim, index, src, false);
}
Tensor scatter_add_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const Op<in_place_of<scatter_add_op>> op(x, index, src, dim);
  elementwise::check_arithmetic(x);
  return write_elements<&GatherKernels::scatter_add, ScatterAddBackward>(x, dim, index, src, true);
}

}  // namespace bytetape
