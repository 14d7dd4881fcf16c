// Layer normalisation by rows, in three passes over a row that stays in the cache: mean, squared distances, result.
// RMS normalisation is the same with a mean of 0.
#include "bytetape/core/cpu/norm/layer_norm.h"

#include <cmath>

#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/norm_types.h"

namespace bytetape::cpu {
namespace {

template <class T>
Row<T> row_of(const ConstView& x, std::int64_t i) {
  return {reinterpret_cast<const char*>(x.as<T>() + i * x.shape[1]), sizeof(T), x.shape[1]};
}

/// Calls f(index, values of a, values of b) piece by piece. `index` is that of the first element.
template <class T, class S, class F>
void for_each_pair(const Row<T>& a, const Row<S>& b, F&& f) {
  detail::Source<S> source;
  a.for_each_piece(
      [&](std::int64_t at, const auto& v) { f(at, v, source.load(b.data + at * b.step, b.step, v.size())); });
}

/// Pieces of weight or bias, which are stored in C or S. Undefined ones are constant.
template <class C, class S = C>
class Coefficients {
 public:
  Coefficients(const ConstView& v, C otherwise)
      : data_(v.as<char>()), is_stored_in_c_(!v.defined() || size_of(v.dtype) == sizeof(C)) {
    if (!data_) std::fill_n(same_, detail::chunk, otherwise);
  }
  ConstMap<C> piece(std::int64_t at, std::int64_t n) const {
    return {data_ ? reinterpret_cast<const C*>(data_) + at : same_, n};
  }
  /// Returns the same, converted in the buffer of `source` if that is necessary.
  ConstMap<C> piece(std::int64_t at, std::int64_t n, detail::Source<S>& source) const {
    return is_stored_in_c_ ? piece(at, n) : source.load(data_ + at * sizeof(S), sizeof(S), n);
  }

 private:
  const char* data_;
  bool is_stored_in_c_;
  alignas(64) C same_[detail::chunk];
};

template <class T>
void store(const View& y, std::int64_t i, std::int64_t at, const auto& values) {
  store_piece<T>(reinterpret_cast<char*>(y.as<T>() + i * y.shape[1] + at), sizeof(T), values);
}

std::int64_t rows_grain(const ConstView& x) {
  return std::max<std::int64_t>(grain / 2 / std::max<std::int64_t>(x.shape[1], 1), 1);
}

template <class T, class S>
void add_rows(const LayerNormArgs& a, std::int64_t i) {
  for_each_pair(row_of<S>(a.x, i), row_of<T>(a.residual, i),
                [&](std::int64_t at, const auto& v, const auto& r) { store<T>(a.sum, i, at, v + r); });
}

}  // namespace

void layer_norm(const LayerNormArgs& a) {
  visit_norm_types((a.residual.defined() ? a.residual : a.x).dtype, a.y.dtype, [&](auto normalised, auto y) {
    using T = decltype(normalised);
    using S = decltype(y);
    using C = compute_t<T>;
    const Coefficients<C, S> scale(a.weight, 1), shift(a.bias, 0);
    const bool adds = a.residual.defined(), is_centred = a.mean.defined();
    const auto n = static_cast<double>(a.x.shape[1]);
    parallel_for(a.x.shape[0], rows_grain(a.x), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (adds) add_rows<T, S>(a, i);
        detail::Source<S> scales, shifts;
        const Row<T> row = row_of<T>(adds ? a.sum : a.x, i);
        const C center = is_centred ? row.sum() / static_cast<C>(n) : C{0};
        double m1 = 0, m2 = 0;  // m1: the error of the rounded mean
        row.for_each_piece([&](std::int64_t, const auto& v) {
          if (is_centred) m1 += static_cast<double>(sum_of(v - center));
          m2 += static_cast<double>(sum_of((v - center).square()));
        });
        const double rest = m1 / n;
        const C r = static_cast<C>(1 / std::sqrt(std::max(m2 / n - rest * rest, 0.0) + a.eps)),
                off = static_cast<C>(rest);
        row.for_each_piece([&](std::int64_t at, const auto& v) {
          const auto w = scale.piece(at, v.size(), scales), b = shift.piece(at, v.size(), shifts);
          store<S>(a.y, i, at, (v - center - off) * r * w + b);
        });
        if (is_centred) a.mean.as<C>()[i] = center + off;
        a.rstd.as<C>()[i] = r;
      }
    });
  });
}

namespace {

/// The number of sums over the rows: of gw, and of gb unless the mean is 0.
int sums_of(const LayerNormBackwardArgs& a) { return a.mean.defined() ? 2 : 1; }

/// Blocks of rows for the sums of gw and gb. Blocks depend on the shape alone, so the number of threads does not change
/// the bits.
struct RowBlocks {
  std::int64_t rows, length, count;
  explicit RowBlocks(const ConstView& x) : rows(x.shape[0]) {
    constexpr std::int64_t most = 64;
    length = std::max({rows_grain(x), (rows + most - 1) / most, std::int64_t{1}});
    count = (rows + length - 1) / length;
  }
};

/// Stores the rounded values in gx, and adds the addend if it is defined. S is the dtype of narrow_gx.
template <class T, class S>
void store_gradient(const LayerNormBackwardArgs& a, std::int64_t i, std::int64_t at, const auto& values) {
  alignas(64) T rounded[detail::chunk];
  detail::Source<T> source, other;
  const std::int64_t n = values.size();
  const auto in_row = [&](const ConstView& x) { return row_of<T>(x, i).data + at * sizeof(T); };
  if (a.addend.defined()) {
    store_piece<T>(reinterpret_cast<char*>(rounded), sizeof(T), values);
    store<T>(
        a.gx, i, at,
        source.load(reinterpret_cast<const char*>(rounded), sizeof(T), n) + other.load(in_row(a.addend), sizeof(T), n));
  } else {
    store<T>(a.gx, i, at, values);
  }
  if (a.narrow_gx.defined()) store<S>(a.narrow_gx, i, at, source.load(in_row(a.gx), sizeof(T), n));
}

// With h = (x - mean) rstd and g = gy weight: gb = sum(gy), gw = sum(gy h) over the rows, and in each row
// gx = rstd (g - mean(g) - h mean(g h)) + addend. If the mean is 0, mean(g) is 0 too, and gb is null.
template <class T, class S, class C = compute_t<T>>
void backward_of_block(const LayerNormBackwardArgs& a, std::int64_t begin, std::int64_t end, C* gw, C* gb) {
  const Coefficients<C> scale(a.weight, 1);
  const std::int64_t n = a.x.shape[1];
  const bool is_centred = a.mean.defined();
  std::fill_n(gw, n, C{0});
  if (gb) std::fill_n(gb, n, C{0});
  for (std::int64_t i = begin; i < end; ++i) {
    const Row<T> x = row_of<T>(a.x, i);
    const Row<S> gy = row_of<S>(a.gy, i);
    const C center = is_centred ? a.mean.as<C>()[i] : C{0}, r = a.rstd.as<C>()[i];
    double sum = 0, product = 0;
    for_each_pair(x, gy, [&](std::int64_t at, const auto& v, const auto& g) {
      const auto w = scale.piece(at, v.size());
      Eigen::Map<Array<C>>(gw + at, v.size()) += g * ((v - center) * r);
      if (gb) Eigen::Map<Array<C>>(gb + at, v.size()) += g;
      if (is_centred) sum += static_cast<double>(sum_of(g * w));
      product += static_cast<double>(sum_of(g * w * ((v - center) * r)));
    });
    if (!a.gx.defined()) continue;
    const C share = static_cast<C>(sum / static_cast<double>(n)),
            slope = static_cast<C>(product / static_cast<double>(n));
    for_each_pair(x, gy, [&](std::int64_t at, const auto& v, const auto& g) {
      store_gradient<T, S>(a, i, at, (g * scale.piece(at, v.size()) - share - (v - center) * r * slope) * r);
    });
  }
}

}  // namespace

Plan plan_layer_norm_backward(const LayerNormBackwardArgs& a) {
  return {.workspace = static_cast<std::size_t>(sums_of(a) * RowBlocks(a.x).count * a.x.shape[1]) *
                       size_of(accumulated(a.x.dtype))};
}

void layer_norm_backward(const LayerNormBackwardArgs& a, const Plan&, Workspace ws) {
  visit_norm_types(a.x.dtype, a.gy.dtype, [&](auto x, auto gy) {
    using T = decltype(x);
    using S = decltype(gy);
    using C = compute_t<T>;
    const RowBlocks blocks(a.x);
    const std::int64_t n = a.x.shape[1];
    const int sums = sums_of(a);
    auto* partials = static_cast<C*>(ws.data);
    parallel_for(blocks.count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        C* const gw = partials + sums * b * n;
        backward_of_block<T, S>(a, b * blocks.length, std::min(blocks.rows, (b + 1) * blocks.length), gw,
                                sums == 2 ? gw + n : nullptr);
      }
    });
    parallel_for(n, std::max<std::int64_t>(grain / 2 / std::max<std::int64_t>(blocks.count, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (int which = 0; which < sums; ++which) {
                     const View& to = which == 0 ? a.gw : a.gb;
                     if (!to.defined()) continue;
                     for (std::int64_t j = begin; j < end; ++j) {
                       double total = 0;
                       for (std::int64_t b = 0; b < blocks.count; ++b)
                         total += static_cast<double>(partials[(sums * b + which) * n + j]);
                       to.as<C>()[j] = static_cast<C>(total);
                     }
                   }
                 });
  });
}

const LayerNormKernels& layer_norm_kernels() {
  static const LayerNormKernels all{
      .layer_norm = layer_norm,
      .layer_norm_backward = {plan_layer_norm_backward, layer_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cpu
