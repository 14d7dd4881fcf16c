#include "bytetape/autograd/grad_mode.h"
#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

/// x, or a copy of it if its elements share memory.
Tensor writable(const Tensor& x) {
  const bool shares = x.defined() && std::ranges::find(x.strides(), 0) != x.strides().end();
  return shares ? contiguous(x) : x;
}
Tensor attend(X x) {
  const NoGrad no_grad;
  return cached_attention(x[0], x[1], x[2], writable(x[3]), writable(x[4]), x[5]);
}
/// The cache with x at the rows' positions.
Array write(const Array& x, Array cache, const Array& positions) {
  for_each_index(x.shape, [&](const Dims& at) {
    cache({at[0], at[1], at[2] + static_cast<std::int64_t>(positions({at[0]})), at[3]}) = x(at);
  });
  return cache;
}

Array attended(A x) {
  const Array &q = x[0], keys = write(x[1], x[3], x[5]), values = write(x[2], x[4], x[5]);
  const std::int64_t group = q.size(1) / keys.size(1);
  const double scale = 1 / std::sqrt(std::max(static_cast<double>(q.size(3)), 1.0));
  Array y(q.shape);
  for_each_index({q.size(0), q.size(1), q.size(2)}, [&](const Dims& at) {
    double sum = 0;
    for (std::int64_t j = 0; j <= static_cast<std::int64_t>(x[5]({at[0]})) + at[2]; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < q.size(3); ++c)
        score += scale * q({at[0], at[1], at[2], c}) * keys({at[0], at[1] / group, j, c});
      sum += std::exp(score);
      for (std::int64_t c = 0; c < q.size(3); ++c)
        y({at[0], at[1], at[2], c}) += std::exp(score) * values({at[0], at[1] / group, j, c});
    }
    for (std::int64_t c = 0; c < q.size(3); ++c) y({at[0], at[1], at[2], c}) /= sum;
  });
  return y;
}

/// n rows of `heads` heads that read kv_heads of a cache with room for `capacity` tokens, and t new tokens.
Case inputs(std::int64_t n, std::int64_t heads, std::int64_t kv_heads, std::int64_t t, std::int64_t capacity,
            std::int64_t d) {
  const Input fresh = in(n, kv_heads, t, d), cache = in(n, kv_heads, capacity, d);
  return {in(n, heads, t, d), fresh, fresh, cache, cache, in(n).examples()};
}

const Cases cases{inputs(2, 2, 2, 1, 3, 4),
                  inputs(3, 4, 2, 1, 5, 8),
                  inputs(2, 6, 2, 3, 6, 5),
                  inputs(1, 1, 1, 1, 3, 1),
                  inputs(2, 2, 1, 4, 40, 16),
                  inputs(0, 2, 2, 1, 3, 4),
                  inputs(2, 2, 2, 0, 3, 4),
                  inputs(2, 2, 2, 1, 3, 0),
                  {in(2, 2, 2, 8).transposed(), in(2, 2, 2, 8).narrowed(), in(2, 2, 2, 8).spaced(),
                   in(2, 2, 5, 8).transposed(), in(2, 2, 5, 8).narrowed(), in(2).examples().spaced()},
                  {in(2, 2, 1, 3).expanded(), in(2, 2, 1, 3).channels_last(), in(2, 2, 1, 3).expanded(),
                   in(2, 2, 4, 3).channels_last(), in(2, 2, 4, 3).spaced(), in(2).examples().expanded()}};

std::vector<BadInput> bad_inputs() {
  const Case good = inputs(2, 4, 2, 1, 3, 4);
  const auto with = [&](std::size_t i, const Input& x) {
    Case c = good;
    c[i] = x;
    return c;
  };
  const auto with_two = [&](std::size_t i, const Input& x) {
    Case c = with(i, x);
    c[i + 1] = x;
    return c;
  };
  const auto without_no_grad = [](X x) { return cached_attention(x[0], x[1], x[2], x[3], x[4], x[5]); };
  const auto into_shared = [](X x) {
    const NoGrad no_grad;
    return cached_attention(x[0], x[1], x[2], x[3], x[4], x[5]);
  };
  return {bad<DTypeError>("inputs of different dtypes", with(3, good[3].as(DType::f32))),
          bad<DTypeError>("expected positions in i64, got f64(2,)", with(5, in(2))),
          bad<DeviceError>("inputs on different devices", with(5, good[5].elsewhere())),
          bad<ShapeError>("expected q, k, v, keys and values of shape (n, heads, tokens, head size), got f64(2, 4)",
                          with(0, in(2, 4))),
          bad<ShapeError>("do not fit together", with(1, in(2, 2, 2, 4))),
          bad<ShapeError>("do not fit together", with(2, in(2, 2, 2, 4))),
          bad<ShapeError>("do not fit together", with_two(1, in(2, 2, 2, 4))),
          bad<ShapeError>("do not fit together", with(4, in(2, 2, 5, 4))),
          bad<ShapeError>("do not fit together", with_two(3, in(3, 2, 3, 4))),
          bad<ShapeError>("do not fit together", with_two(3, in(2, 2, 3, 5))),
          bad<ShapeError>("the 2 heads of the cache f64(2, 2, 3, 4)", with(0, in(2, 3, 1, 4))),
          bad<ShapeError>("the 2 heads of the cache f64(2, 2, 3, 4)", with(0, in(2, 0, 1, 4))),
          bad<ShapeError>("the 0 heads of the cache f64(2, 0, 3, 4)", inputs(2, 4, 0, 1, 3, 4)),
          bad<ShapeError>("expected a head size of at most 256", inputs(1, 1, 1, 1, 3, 257)),
          bad<ShapeError>("a position for each of the 2 rows of q", with(5, in(3).examples())),
          bad<ShapeError>("the 4 new tokens of q f64(2, 2, 4, 4)", inputs(2, 2, 2, 4, 3, 4)),
          bad<AutogradError>("not differentiable, but an input requires grad", good, without_no_grad),
          bad<ValueError>("whose elements share memory", with(3, good[3].expanded()), into_shared),
          needs_data(bad<ValueError>("position 2 of a row is not in [0, 2)", inputs(64, 1, 1, 2, 3, 4)))};
}

}  // namespace

std::vector<OpRow> cached_attention_rows() {
  return {{.op = "cached_attention",
           .f = attend,
           .reference = attended,
           .cases = cases,
           .bad = bad_inputs(),
           .gradients = Gradients::none,
           .large = inputs(2, 8, 4, 40, 200, 24)}};
}

}  // namespace bytetape::test
