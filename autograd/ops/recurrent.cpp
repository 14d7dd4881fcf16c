#include "bytetape/autograd/ops/recurrent.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/recurrent.h"

namespace bytetape {

namespace {

/// The shape of `gates` gates for the state (..., hidden).
Shape gates_shape(const Tensor& state, std::int64_t gates) {
  Shape shape = state.shape();
  shape[state.rank() - 1] *= gates;
  return shape;
}
/// Throws unless from_x and from_h are (..., gates * hidden) for the state (..., hidden), of one dtype and device.
void check_cell(const Tensor& from_x, const Tensor& from_h, const Tensor& state, const char* name, std::int64_t gates) {
  check_same_type(from_x, from_h);
  check_defined(state, name);
  check_same_type(from_x, state);
  check_floating(from_x);
  check(state.rank() > 0 && state.shape().back() > 0, "expected a state ", name, " of shape (..., hidden), got ",
        describe(state));
  const Shape expected = gates_shape(state, gates);
  for (const Tensor* x : {&from_x, &from_h})
    check(x->shape() == expected, "expected from_x and from_h of shape ", expected, " for the state ", name, ", ",
          describe(state), ", got ", describe(from_x), " and ", describe(from_h));
}
struct CellInputs {
  Tensor from_x, from_h, state;
};
/// Under Autocast, converts the inputs to their widest floating dtype.
CellInputs promoted_inputs(const Tensor& from_x, const Tensor& from_h, const Tensor& state) {
  const auto [x, h] = promoted_pair(from_x, from_h);
  const auto [wide_h, wide_state] = promoted_pair(h, state);
  return {promoted_pair(x, wide_h).first, wide_h, wide_state};
}

/// Returns x (..., n) as rows (r, n), a copy if they do not lie in steps of one size. Undefined if x is.
Tensor as_rows(const Tensor& x) {
  if (!x.defined()) return x;
  const int last = x.rank() - 1;
  std::int64_t rows = 1, step = 0;
  for (int d = last - 1; d >= 0; --d) {
    if (x.shape()[d] == 1) continue;
    if (rows > 1 && x.strides()[d] != rows * step) {
      const NoGrad no_grad;
      return as_rows(contiguous(x));
    }
    if (rows == 1) step = x.strides()[d];
    rows *= x.shape()[d];
  }
  return x.alias({rows, x.shape()[last]}, {step, x.strides()[last]}, x.storage_offset());
}
Tensor empty_row_major(const Shape& shape, const Tensor& like) { return empty(shape, like.dtype(), like.device()); }

/// Returns the gradient of the sigmoid or tanh that gave y.
Tensor through_sigmoid(const Tensor& gy, const Tensor& y) { return gy * (y * (1 - y)); }
Tensor through_tanh(const Tensor& gy, const Tensor& y) { return gy * (1 - y * y); }
Tensor sum_of_defined(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

}  // namespace

/// The activated gates are output 2, so that the composed rule can be differentiated again.
struct LstmCellBackward final : Node {
  Saved activated{this}, c{this};

  bool takes_undefined() const override { return true; }
  bool takes_addend() const override { return true; }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (grad_enabled() || gy[2].defined())
      composed(sum_of_defined(gy[0], gx.addend()), gy[1], gy[2], gx);
    else
      fused(gy, gx);
  }

 private:
  void composed(const Tensor& gh, const Tensor& gnext_c, const Tensor& gactivated, InputGrads& gx) const {
    const Tensor gates = activated.get(), before = c.get();
    const std::vector<Tensor> ifgo = chunk(gates, 4, -1);
    const Tensor &i = ifgo[0], &f = ifgo[1], &g = ifgo[2], &o = ifgo[3];
    const Tensor t = tanh(f * before + i * g);
    Tensor gc = gnext_c, go = zeros_like(o);
    if (gh.defined()) {
      gc = sum_of_defined(gc, through_tanh(gh * o, t));
      go = gh * t;
    }
    if (!gc.defined()) gc = zeros_like(before);
    if (gx.needs(2)) gx[2] = gc * f;
    if (!gx.needs(0) && !gx.needs(1)) return;
    const Tensor ggates = sum_of_defined(cat({gc * g, gc * before, gc * i, go}, -1), gactivated);
    const std::vector<Tensor> parts = chunk(ggates, 4, -1);
    gx[0] = gx[1] = cat({through_sigmoid(parts[0], i), through_sigmoid(parts[1], f), through_tanh(parts[2], g),
                         through_sigmoid(parts[3], o)},
                        -1);
  }
  /// Writes the gradients over tensors that only this rule holds.
  void fused(const Grads& gy, InputGrads& gx) {
    const bool needs_gates = gx.needs(0) || gx.needs(1), is_over_saved = needs_gates && activated.is_sole_owner(gx),
               is_over_gc = gy[1].defined() && gy[1].is_contiguous() && may_overwrite(gy[1]);
    const Tensor gates = activated.get(), before = c.get();
    if (gx.needs(2)) gx[2] = is_over_gc ? gy[1] : empty_row_major(before.shape(), before);
    const Tensor ggates = !needs_gates    ? Tensor()
                          : is_over_saved ? activated.take(gx)
                                          : empty_row_major(gates.shape(), gates);
    const Tensor c_rows = as_rows(before), gh = as_rows(gy[0]), more_gh = as_rows(gx.addend()),
                 gnext_c = as_rows(gy[1]);
    run<&RecurrentKernels::lstm_cell_backward>(
        before.device(), LstmCellBackwardArgs{as_rows(gates).read(), c_rows.read(), read(gh), read(more_gh),
                                              read(gnext_c), write(as_rows(ggates)), write(as_rows(gx[2]))});
    if (gx.needs(0)) gx[0] = ggates;
    if (gx.needs(1)) gx[1] = ggates;
  }
};
constexpr OpDefinition lstm_cell_op{.name = "lstm_cell",
                                    .inputs = {"from_x", "from_h", "c"},
                                    .outputs = {"h", "c"},
                                    .family = Family::recurrent,
                                    .autocast = AutocastClass::widest};
LstmCell lstm_cell(const Tensor& given_x, const Tensor& given_h, const Tensor& given_c) {
  const Op<lstm_cell_op> op(given_x, given_h, given_c);
  const auto [from_x, from_h, c] = promoted_inputs(given_x, given_h, given_c);
  check_cell(from_x, from_h, c, "c", 4);
  const LstmCell made{.h = empty_row_major(c.shape(), c), .c = empty_row_major(c.shape(), c)};
  const Ref<LstmCellBackward> node = prepare<LstmCellBackward>(from_x, from_h, c);
  const Tensor activated = node ? empty_row_major(from_x.shape(), from_x) : Tensor();
  const Tensor x_rows = as_rows(from_x), h_rows = as_rows(from_h), c_rows = as_rows(c);
  run<&RecurrentKernels::lstm_cell>(c.device(),
                                    LstmCellArgs{x_rows.read(), h_rows.read(), c_rows.read(), as_rows(made.h).write(),
                                                 as_rows(made.c).write(), write(as_rows(activated))});
  op.results({made.h, made.c});
  if (!node) return made;
  for (const Tensor* y : {&made.h, &made.c, &activated}) detail::add_output(*node, *y);
  node->activated.save_output(activated, 2);
  node->c.save(c);
  return made;
}

/// The kept tensor has r, z and n after activation, and n's part of from_h. It is output 1, so that the composed rule
/// can be differentiated again.
struct GruCellBackward final : Node {
  Saved kept{this}, h{this};

  bool takes_undefined() const override { return true; }
  bool takes_addend() const override { return true; }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (grad_enabled() || gy[1].defined())
      composed(sum_of_defined(gy[0], gx.addend()), gy[1], gx);
    else
      fused(gy[0], gx);
  }

 private:
  void composed(const Tensor& given, const Tensor& gkept, InputGrads& gx) const {
    const Tensor state = h.get(), g = given.defined() ? given : zeros_like(state);
    const std::vector<Tensor> parts = chunk(kept.get(), 4, -1);
    const Tensor &r = parts[0], &z = parts[1], &n = parts[2], &from_h = parts[3];
    if (gx.needs(2)) gx[2] = g * z;
    if (!gx.needs(0) && !gx.needs(1)) return;
    Tensor gr, gz = g * (state - n), gn = g * (1 - z), gfrom_h;
    if (gkept.defined()) {
      const std::vector<Tensor> more = chunk(gkept, 4, -1);
      gr = more[0], gz = gz + more[1], gn = gn + more[2], gfrom_h = more[3];
    }
    gn = through_tanh(gn, n);
    gr = through_sigmoid(sum_of_defined(gr, gn * from_h), r);
    gz = through_sigmoid(gz, z);
    if (gx.needs(0)) gx[0] = cat({gr, gz, gn}, -1);
    if (gx.needs(1)) gx[1] = cat({gr, gz, sum_of_defined(gfrom_h, gn * r)}, -1);
  }
  void fused(const Tensor& g, InputGrads& gx) const {
    const Tensor parts = kept.get(), state = h.get();
    for (const std::size_t i : {0, 1})
      if (gx.needs(i)) gx[i] = empty_row_major(gates_shape(state, 3), state);
    if (gx.needs(2)) gx[2] = empty_row_major(state.shape(), state);
    const Tensor h_rows = as_rows(state), gnext_h = as_rows(g), more_gnext_h = as_rows(gx.addend());
    run<&RecurrentKernels::gru_cell_backward>(
        state.device(), GruCellBackwardArgs{as_rows(parts).read(), h_rows.read(), read(gnext_h), read(more_gnext_h),
                                            write(as_rows(gx[0])), write(as_rows(gx[1])), write(as_rows(gx[2]))});
  }
};
constexpr OpDefinition gru_cell_op{.name = "gru_cell",
                                   .inputs = {"from_x", "from_h", "h"},
                                   .family = Family::recurrent,
                                   .autocast = AutocastClass::widest};
Tensor gru_cell(const Tensor& given_x, const Tensor& given_h, const Tensor& given_state) {
  const Op<gru_cell_op> op(given_x, given_h, given_state);
  const auto [from_x, from_h, h] = promoted_inputs(given_x, given_h, given_state);
  check_cell(from_x, from_h, h, "h", 3);
  const Tensor next = empty_row_major(h.shape(), h);
  const Ref<GruCellBackward> node = prepare<GruCellBackward>(from_x, from_h, h);
  const Tensor kept = node ? empty_row_major(gates_shape(h, 4), h) : Tensor();
  const Tensor x_rows = as_rows(from_x), h_rows = as_rows(from_h), state_rows = as_rows(h);
  run<&RecurrentKernels::gru_cell>(h.device(), GruCellArgs{x_rows.read(), h_rows.read(), state_rows.read(),
                                                           as_rows(next).write(), write(as_rows(kept))});
  detail::note_result(next);
  if (!node) return next;
  for (const Tensor* y : {&next, &kept}) detail::add_output(*node, *y);
  node->kept.save_output(kept, 1);
  node->h.save(h);
  return next;
}

}  // namespace bytetape
