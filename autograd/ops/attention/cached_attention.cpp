#include "bytetape/autograd/ops/attention/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "bytetape/autograd/op.h"
#include "bytetape/core/kernels/cached_attention.h"

namespace bytetape {

namespace {

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys, const Tensor& values,
                  const Tensor& positions) {
  for (const Tensor* x : {&k, &v, &keys, &values}) check_same_type(q, *x);
  check_floating(q);
  check_same_device(q, positions);
  check<DTypeError>(positions.dtype() == DType::i64, "expected positions in i64, got ", describe(positions));
  for (const Tensor* x : {&q, &k, &v, &keys, &values})
    check(x->rank() == 4, "expected q, k, v, keys and values of shape (n, heads, tokens, head size), got ",
          describe(*x));
  const Shape &s = q.shape(), &c = keys.shape();
  check(k.shape() == v.shape() && c == values.shape() && k.shape() == Shape{s[0], c[1], s[2], s[3]} && c[0] == s[0] &&
            c[3] == s[3],
        "q ", describe(q), ", k ", describe(k), ", v ", describe(v), " and the cache of ", describe(keys), " and ",
        describe(values), " do not fit together");
  check(s[1] > 0 && c[1] > 0 && s[1] % c[1] == 0, "the ", c[1], " heads of the cache ", describe(keys),
        " do not divide those of q ", describe(q));
  check(s[3] <= most_cached_columns, "expected a head size of at most ", most_cached_columns, ", got q ", describe(q));
  check(positions.shape() == Shape{s[0]}, "expected a position for each of the ", s[0], " rows of q, got ",
        describe(positions));
  check(s[2] <= c[2], "the ", s[2], " new tokens of q ", describe(q), " exceed the capacity of the cache ",
        describe(keys));
  check<AutogradError>(!any_requires_grad({&q, &k, &v, &keys, &values}),
                       "not differentiable, but an input requires grad; call it under NoGrad");
}

}  // namespace

constexpr OpDefinition cached_attention_op{.name = "cached_attention",
                                           .inputs = {"q", "k", "v", "keys", "values", "positions"},
                                           .family = Family::cached_attention,
                                           .writes = {"keys", "values"}};
Tensor cached_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys, const Tensor& values,
                        const Tensor& positions) {
  const Op<cached_attention_op> op(q, k, v, keys, values, positions);
  check_inputs(q, k, v, keys, values, positions);
  check_in_place(keys, {&q, &k, &v, &values, &positions});
  check_in_place(values, {&q, &k, &v, &keys, &positions});
  const std::int64_t heads = q.size(1), t = q.size(2), d = q.size(3);
  const Tensor y = empty_strided(q.shape(), {t * heads * d, d, heads * d, 1}, q.dtype(), q.device());
  const double scale = 1 / std::sqrt(std::max(static_cast<double>(d), 1.0));
  run<&CachedAttentionKernels::cached_attention>(
      q.device(), CachedAttentionArgs{q.read(), k.read(), v.read(), keys.write(), values.write(), positions.read(),
                                      scale, y.write()});
  for (const Tensor* x : {&keys, &values}) x->storage().bump_version();
  return op.result(y);
}

}  // namespace bytetape
