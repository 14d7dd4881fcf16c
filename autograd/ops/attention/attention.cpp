#include "bytetape/autograd/ops/attention/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/dropout.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/pad.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/softmax.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/attention.h"
#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {

using enum AttributeType;

namespace {

constinit std::atomic<bool> fused_by_default{true};

/// Returns an uninitialised tensor like x (b, h, n, d) with `width` columns. Heads stay inside the tokens if they are
/// in x, so that joining the heads needs no copy.
Tensor heads_like(const Tensor& x, std::int64_t width) {
  const std::int64_t b = x.size(0), h = x.size(1), n = x.size(2);
  const bool is_inside = x.strides()[1] < x.strides()[2];
  const Strides inside{n * h * width, width, h * width, 1};
  const Shape shape{b, h, n, width};
  return empty_strided(shape, is_inside ? inside : contiguous_strides(shape), x.dtype(), x.device());
}

/// Whether q, k and v are parts of one projection of each token, (b, n, 3, h, d).
bool are_packed(const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t width = q.size(1) * q.size(3);
  const Strides packed{q.size(2) * 3 * width, q.size(3), 3 * width, 1};
  const auto follows = [&](const Tensor& x, const Tensor& before) {
    return &x.storage() == &before.storage() && x.shape() == q.shape() && x.strides() == packed &&
           x.storage_offset() == before.storage_offset() + width;
  };
  return q.strides() == packed && follows(k, q) && follows(v, k);
}

struct AttentionBackward final : Node {
  Saved q{this}, k{this}, v{this}, mask{this}, y{this}, shift{this}, factor{this};
  bool is_causal = false, may_fuse = true;
  double scale = 1, p = 0;
  PhiloxState state;
  Shape mask_shape;
  DType mask_dtype = DType::f32;

  void backward(const Grads& gy, InputGrads& gx) override {
    if (grad_enabled() || gx.needs(3)) return composed(gy[0], gx);
    fused(gy[0], gx);
  }

 private:
  void fused(const Tensor& gy, InputGrads& gx) const;
  void make_gradients(const Tensor& q, const Tensor& k, const Tensor& v, InputGrads& gx) const;
  void composed(const Tensor& gy, InputGrads& gx) const;
  Tensor probabilities(const Tensor& q, const Tensor& k) const;
  std::function<Tensor(const Tensor&)> dropout_of(const Tensor& q, const Tensor& k, const Tensor& v) const;
};

/// The inputs of the kernels. The mask is expanded to the scores.
AttentionInputs inputs_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool is_causal,
                          double scale, double p, bool may_fuse, const PhiloxState& state) {
  const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  return {.q = q.read(),
          .k = k.read(),
          .v = v.read(),
          .mask = mask.defined() ? mask.read().expand(scores) : ConstView(),
          .is_causal = is_causal,
          .scale = scale,
          .p = p,
          .may_fuse = may_fuse,
          .state = state};
}

void AttentionBackward::fused(const Tensor& gy, InputGrads& gx) const {
  const Tensor q = this->q.get(), k = this->k.get(), v = this->v.get();
  make_gradients(q, k, v, gx);
  run_planned<&AttentionKernels::attention_backward>(
      q.device(), {inputs_of(q, k, v, mask.get(), is_causal, scale, p, may_fuse, state), y.get().read(),
                   shift.get().read(), factor.get().read(), gy.read(), write(gx[0]), write(gx[1]), write(gx[2])});
}

/// Makes tensors for the gradients. Those of a packed projection are packed, too, so that they need not be joined.
void AttentionBackward::make_gradients(const Tensor& q, const Tensor& k, const Tensor& v, InputGrads& gx) const {
  const std::array<const Tensor*, 3> inputs{&q, &k, &v};
  const bool is_packed = gx.needs(0) && gx.needs(1) && gx.needs(2) && are_packed(q, k, v);
  const Tensor all = is_packed ? empty({3 * q.numel()}, q.dtype(), q.device()) : Tensor();
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor& x = *inputs[i];
    if (is_packed)
      gx[i] = all.alias(x.shape(), x.strides(), static_cast<std::int64_t>(i) * x.size(1) * x.size(3));
    else if (gx.needs(i))
      gx[i] = heads_like(x, x.size(3));
  }
}

/// Repeats each head of x (b, g, m, d) for the heads of q that read it.
Tensor repeat_heads(const Tensor& x, std::int64_t heads) {
  const Shape& s = x.shape();
  if (s[1] == heads) return x;
  return reshape(expand(unsqueeze(x, 2), {s[0], s[1], heads / s[1], s[2], s[3]}), {s[0], heads, s[2], s[3]});
}
/// Sums the gradients of repeated heads.
Tensor sum_heads(const Tensor& g, std::int64_t groups) {
  const Shape& s = g.shape();
  if (s[1] == groups) return g;
  return sum(reshape(g, {s[0], groups, s[1] / groups, s[2], s[3]}), 2);
}

/// Returns softmax(scale q k^T + mask), with rows of 0 for queries that may attend to no key.
Tensor AttentionBackward::probabilities(const Tensor& q, const Tensor& k) const {
  const double inf = std::numeric_limits<double>::infinity();
  Tensor scores = matmul(q, transpose(k, -2, -1)) * scale;
  if (const Tensor m = mask.get(); m.defined())
    scores = m.dtype() == DType::boolean ? where(m, scores, -inf) : scores + m;
  if (is_causal) {
    const Tensor at = arange(q.size(2), DType::i64, q.device());
    scores = where(unsqueeze(at, 1) >= arange(k.size(2), DType::i64, q.device()), scores, -inf);
  }
  const Tensor has_keys = unsqueeze(factor.get() != 0, -1);
  return where(has_keys, softmax(where(has_keys, scores, 0), -1), 0);
}

/// Returns a bool tensor (b, h, n, m): true where the device's own dropout mask keeps a probability. Computes attention
/// with equal scores, and columns of an identity as v. A probability was kept if its result is not 0. The shapes are
/// the op's, because the mask may depend on them.
Tensor kept_by_device(const AttentionInputs& in, const Shape& value) {
  const NoGrad no_grad;
  const DType dtype = in.q.dtype;
  const Device device = in.q.device;
  const std::int64_t keys = value[2], width = value[3];
  const Tensor q = zeros(in.q.shape, dtype, device), k = zeros(in.k.shape, dtype, device);
  const Tensor identity = pad(eye(keys, dtype, device), {0, width});
  const Shape rows{q.size(0), q.size(1), q.size(2)};
  const Tensor shift = empty(rows, DType::f32, device), factor = empty_like(shift);
  std::vector<Tensor> parts;
  for (std::int64_t j = 0; j < keys; j += width) {
    const Tensor y = heads_like(q, width);
    AttentionInputs of_columns = in;
    of_columns.q = q.read(), of_columns.k = k.read();
    of_columns.v = narrow(identity, 1, j, width).read().expand(value);
    run_planned<&AttentionKernels::attention>(device, {of_columns, y.write(), shift.write(), factor.write()});
    parts.push_back(narrow(y, 3, 0, std::min(width, keys - j)) != 0);
  }
  return cat(parts, 3);
}

/// Returns a function that applies the forward's dropout to probabilities or their gradients.
std::function<Tensor(const Tensor&)> AttentionBackward::dropout_of(const Tensor& q, const Tensor& k,
                                                                   const Tensor& v) const {
  const AttentionInputs in = inputs_of(q, k, v, mask.get(), is_causal, scale, p, may_fuse, state);
  const auto is_own = backend(q.device()).kernels->find(&AttentionKernels::drops_by_own_mask);
  if (!is_own || !is_own(in)) return [this](const Tensor& x) { return detail::dropout_at(state, x, p); };
  return [kept = kept_by_device(in, v.shape()), factor = 1 / (1 - p)](const Tensor& x) {
    return where(kept, x * factor, 0);
  };
}

void AttentionBackward::composed(const Tensor& gy, InputGrads& gx) const {
  const auto wide = [&](const Tensor& x) { return to(x, accumulated(gy.dtype())); };
  const auto narrow = [&](const Tensor& g) { return to(g, gy.dtype()); };
  const auto drop = dropout_of(this->q.get(), this->k.get(), this->v.get());
  const Tensor q = wide(this->q.get()), g = wide(gy);
  const std::int64_t heads = q.size(1), groups = this->k.get().size(1);
  const Tensor k = repeat_heads(wide(this->k.get()), heads), v = repeat_heads(wide(this->v.get()), heads);
  const Tensor weights = probabilities(q, k);
  if (gx.needs(2)) gx[2] = narrow(sum_heads(matmul(transpose(drop(weights), -2, -1), g), groups));
  const Tensor slopes = drop(matmul(g, transpose(v, -2, -1)));
  const Tensor gs = weights * (slopes - sum(weights * slopes, -1, true));
  if (gx.needs(0)) gx[0] = narrow(matmul(gs, k) * scale);
  if (gx.needs(1)) gx[1] = narrow(sum_heads(matmul(transpose(gs, -2, -1), q) * scale, groups));
  if (gx.needs(3)) gx[3] = to(sum_to(gs, mask_shape), mask_dtype);
}

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  check_same_type(q, k);
  check_same_type(q, v);
  check_floating(q);
  check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4,
        "expected q, k and v of shape (batch, heads, tokens, head size), got ", describe(q), ", ", describe(k), " and ",
        describe(v));
  check(q.size(0) == k.size(0) && k.size(0) == v.size(0) && k.size(1) == v.size(1) && k.size(2) == v.size(2) &&
            q.size(3) == k.size(3),
        "q ", describe(q), ", k ", describe(k), " and v ", describe(v), " do not fit together");
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "the ", k.size(1), " heads of k ", describe(k),
        " do not divide those of q ", describe(q));
  check<ValueError>(options.dropout >= 0 && options.dropout <= 1, "dropout must be in [0, 1], got ", options.dropout);
  check<ValueError>(options.generator != nullptr, "the generator is null");
  const Tensor& mask = options.mask;
  if (!mask.defined()) return;
  check<DeviceError>(mask.device() == q.device(), "the mask is on another device than q: ", describe(mask), " and ",
                     describe(q));
  check<DTypeError>(
      mask.dtype() == DType::boolean || mask.dtype() == q.dtype() || mask.dtype() == accumulated(q.dtype()),
      "expected a mask in bool, in the dtype of q or in f32, got ", describe(mask), " for q ", describe(q));
  const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  check(broadcasts_to(mask.shape(), scores), "expected a mask that broadcasts to ", scores, ", got ", describe(mask));
}

/// Returns an uninitialised tensor for a part of the log-sum-exp of each query's scores. Backward needs it, so the
/// ledger shows it under a name of its own.
Tensor log_sum_exp_like(const Tensor& q) {
  static const memory::NameId name = memory::intern("attention log-sum-exp");
  const memory::ScopeIds outer = memory::ambient.scope;
  const memory::ScopeGuard named(outer.with(outer.module, name, outer.phase));
  return empty({q.size(0), q.size(1), q.size(2)}, accumulated(q.dtype()), q.device());
}

}  // namespace

bool fused_attention() {
  return detail::autograd_ambient.fused_attention.value_or(fused_by_default.load(std::memory_order_relaxed));
}
void set_fused_attention(bool on) {
  if (auto& own = detail::autograd_ambient.fused_attention) own = on;  // in the second run of a checkpoint
  fused_by_default.store(on, std::memory_order_relaxed);
}

constexpr OpDefinition attention_op{.name = "scaled_dot_product_attention",
                                    .inputs = {"q", "k", "v", "mask"},
                                    .attributes = {{"causal", boolean}, {"dropout", number}, {"scale", number}},
                                    .family = Family::attention,
                                    .autocast = AutocastClass::low};
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  const double p = options.dropout;
  const std::int64_t width = query.defined() && query.rank() > 0 ? query.shape().back() : 1;
  const double scale = options.scale.value_or(1 / std::sqrt(std::max(static_cast<double>(width), 1.0)));
  const Op<attention_op> op(query, key, value, options.mask, options.causal, p, scale);
  const Tensor q = op.input(query), k = op.input(key), v = op.input(value);
  check_inputs(q, k, v, options);
  const bool adds = options.mask.defined() && options.mask.dtype() != DType::boolean;
  const Tensor mask = adds ? to(options.mask, accumulated(q.dtype())) : options.mask;
  const Tensor y = heads_like(q, v.size(3));
  const Tensor shift = log_sum_exp_like(q), factor = log_sum_exp_like(q);
  const auto arguments = [&](const PhiloxState& state) -> AttentionArgs {
    return {inputs_of(q, k, v, mask, options.causal, scale, p, options.fused, state), y.write(), shift.write(),
            factor.write()};
  };
  const Prepared<&AttentionKernels::attention> kernel(q.device(), arguments({}));
  // Draws after everything that may fail, so that a repeated step draws the same numbers.
  const PhiloxState state = p > 0 ? options.generator->take(factor.numel() * k.size(2), q.device()) : PhiloxState{};
  kernel.launch(arguments(state));
  if (auto* node = record<AttentionBackward>(y, q, k, v, mask)) {
    node->q.save(q), node->k.save(k), node->v.save(v), node->mask.save(mask);
    node->y.save_output(y);
    node->shift.save(shift), node->factor.save(factor);
    node->is_causal = options.causal, node->may_fuse = options.fused, node->scale = scale, node->p = p,
    node->state = state;
    if (mask.defined()) node->mask_shape = mask.shape(), node->mask_dtype = mask.dtype();
  }
  return y;
}

}  // namespace bytetape
