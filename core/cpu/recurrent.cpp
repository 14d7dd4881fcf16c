// Steps of recurrent layers. A gate is a view of its own, so that a step is an elementwise function of several inputs
// and outputs. Each chunk of a row is computed in whole vectors, as in whole_vectors.h.
#include "bytetape/core/kernels/recurrent.h"
#include "bytetape/core/integers.h"

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/cpu/whole_vectors.h"

namespace bytetape::cpu {
namespace {

/// Returns columns k * hidden to (k + 1) * hidden of a row, or an undefined view of an undefined one.
template <class V>
V gate(const V& rows, std::int64_t k, std::int64_t hidden) {
  if (!rows.defined()) return rows;
  auto* const data = static_cast<char*>(const_cast<void*>(rows.data()));
  return V(data + k * hidden * rows.strides[1] * static_cast<std::int64_t>(size_of(rows.dtype)), rows.dtype,
           rows.device, {rows.shape[0], hidden}, rows.strides);
}
/// Returns x, or zeros if it is undefined.
ConstView or_zeros(const ConstView& x, const ConstView& like) {
  return x.defined() ? x : ConstView::constant(0, like.dtype, like.device, like.shape);
}

/// Calls f(y, x) with arrays of chunks. f sets the chunks of y. Those of undefined outputs are not stored. All inputs
/// of a chunk are read before its outputs are written.
template <class T, std::size_t Y, std::size_t X, class F>
void in_whole_vectors(const F& f, const std::array<View, Y>& y, const std::array<ConstView, X>& x) {
  using C = compute_t<T>;
  constexpr std::int64_t widest = 64 / sizeof(C);
  std::array<const ConstView*, X + Y> operands;
  for (std::size_t k = 0; k < X; ++k) operands[k] = &x[k];
  for (std::size_t k = 0; k < Y; ++k) operands[X + k] = y[k].defined() ? &y[k] : &x[0];
  const auto row = [&](std::int64_t n, const auto& p, const auto& step) {
    std::array<detail::Chunk<C>, X> in;
    std::array<detail::Chunk<C>, Y> out;
    for (std::int64_t at = 0; at < n; at += detail::chunk) {
      const std::int64_t m = std::min(detail::chunk, n - at), whole = round_up(m, widest);
      for (std::size_t k = 0; k < X; ++k) {
        detail::gather<T>(p[k] + at * step[k], step[k], m, in[k].values);
        std::fill(in[k].values + m, in[k].values + whole, C{1});
      }
      f(out, in, whole);
      for (std::size_t k = 0; k < Y; ++k)
        if (y[k].defined()) detail::scatter<T>(out[k].values, m, p[X + k] + at * step[X + k], step[X + k]);
    }
  };
  for_each_row(make_loop<X + Y>(operands), row, grain / 16);
}

auto sigmoid_of(const auto& x) { return 1 / (1 + (-x).exp()); }

void lstm_cell(const LstmCellArgs& a) {
  const std::int64_t hidden = a.c.shape[1];
  const auto x = [&](int k) { return gate(a.from_x, k, hidden); };
  const auto h = [&](int k) { return gate(a.from_h, k, hidden); };
  const auto activated = [&](int k) { return gate(a.activated, k, hidden); };
  const auto step = [](auto& y, auto& in, std::int64_t n) {
    auto i = y[2].first(n), f = y[3].first(n), g = y[4].first(n), o = y[5].first(n), c = y[1].first(n);
    i = sigmoid_of(in[0].first(n) + in[4].first(n));
    f = sigmoid_of(in[1].first(n) + in[5].first(n));
    g = (in[2].first(n) + in[6].first(n)).tanh();
    o = sigmoid_of(in[3].first(n) + in[7].first(n));
    c = f * in[8].first(n) + i * g;
    y[0].first(n) = o * c.tanh();
  };
  visit_floating(a.h.dtype, [&](auto zero) {
    in_whole_vectors<decltype(zero), 6, 9>(step,
                                           {a.h, a.next_c, activated(0), activated(1), activated(2), activated(3)},
                                           {x(0), x(1), x(2), x(3), h(0), h(1), h(2), h(3), a.c});
  });
}

void lstm_cell_backward(const LstmCellBackwardArgs& a) {
  const std::int64_t hidden = a.c.shape[1];
  const auto activated = [&](int k) { return gate(a.activated, k, hidden); };
  const auto ggate = [&](int k) { return gate(a.ggates, k, hidden); };
  const auto step = [](auto& y, auto& in, std::int64_t n) {
    const auto i = in[0].first(n), f = in[1].first(n), g = in[2].first(n), o = in[3].first(n), c = in[4].first(n);
    auto gi = y[0].first(n), gf = y[1].first(n), gg = y[2].first(n), go = y[3].first(n), gc = y[4].first(n);
    auto gh = in[5].first(n), t = in[6].first(n);
    gh += t;
    t = (f * c + i * g).tanh();
    gc = in[7].first(n) + gh * o * (1 - t * t);  // of next_c
    gi = gc * g * i * (1 - i);
    gf = gc * c * f * (1 - f);
    gg = gc * i * (1 - g * g);
    go = gh * t * o * (1 - o);
    gc *= f;
  };
  visit_floating(a.c.dtype, [&](auto zero) {
    in_whole_vectors<decltype(zero), 5, 8>(step, {ggate(0), ggate(1), ggate(2), ggate(3), a.gc},
                                           {activated(0), activated(1), activated(2), activated(3), a.c,
                                            or_zeros(a.gh, a.c), or_zeros(a.more_gh, a.c), or_zeros(a.gnext_c, a.c)});
  });
}

void gru_cell(const GruCellArgs& a) {
  const std::int64_t hidden = a.h.shape[1];
  const auto x = [&](int k) { return gate(a.from_x, k, hidden); };
  const auto h = [&](int k) { return gate(a.from_h, k, hidden); };
  const auto kept = [&](int k) { return gate(a.kept, k, hidden); };
  const auto step = [](auto& y, auto& in, std::int64_t n) {
    auto r = y[1].first(n), z = y[2].first(n), fresh = y[3].first(n), from_h = y[4].first(n);
    r = sigmoid_of(in[0].first(n) + in[3].first(n));
    z = sigmoid_of(in[1].first(n) + in[4].first(n));
    from_h = in[5].first(n);
    fresh = (in[2].first(n) + r * from_h).tanh();
    y[0].first(n) = fresh + z * (in[6].first(n) - fresh);
  };
  visit_floating(a.h.dtype, [&](auto zero) {
    in_whole_vectors<decltype(zero), 5, 7>(step, {a.next_h, kept(0), kept(1), kept(2), kept(3)},
                                           {x(0), x(1), x(2), h(0), h(1), h(2), a.h});
  });
}

void gru_cell_backward(const GruCellBackwardArgs& a) {
  const std::int64_t hidden = a.h.shape[1];
  const auto kept = [&](int k) { return gate(a.kept, k, hidden); };
  const auto gx = [&](int k) { return gate(a.gfrom_x, k, hidden); };
  const auto gh = [&](int k) { return gate(a.gfrom_h, k, hidden); };
  const auto step = [](auto& y, auto& in, std::int64_t n) {
    const auto r = in[0].first(n), z = in[1].first(n), fresh = in[2].first(n), from_h = in[3].first(n),
               h = in[4].first(n);
    auto g = in[5].first(n), gr = y[0].first(n), gz = y[1].first(n), gn = y[2].first(n);
    g += in[6].first(n);
    gn = g * (1 - z) * (1 - fresh * fresh);
    gr = gn * from_h * r * (1 - r);
    gz = g * (h - fresh) * z * (1 - z);
    y[3].first(n) = gr;
    y[4].first(n) = gz;
    y[5].first(n) = gn * r;
    y[6].first(n) = g * z;
  };
  visit_floating(a.h.dtype, [&](auto zero) {
    in_whole_vectors<decltype(zero), 7, 7>(
        step, {gx(0), gx(1), gx(2), gh(0), gh(1), gh(2), a.gh},
        {kept(0), kept(1), kept(2), kept(3), a.h, or_zeros(a.gnext_h, a.h), or_zeros(a.more_gnext_h, a.h)});
  });
}

}  // namespace

const RecurrentKernels& recurrent_kernels() {
  static const RecurrentKernels all{
      .lstm_cell = lstm_cell,
      .lstm_cell_backward = lstm_cell_backward,
      .gru_cell = gru_cell,
      .gru_cell_backward = gru_cell_backward,
  };
  return all;
}

}  // namespace bytetape::cpu
