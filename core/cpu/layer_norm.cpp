// Layer normalisation, a row at a time: its mean, its squared distances from that, then the result; three passes over a
// row that stays in the cache.
#include <cmath>

#include "bytetape/core/cpu/row.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/layer_norm.h"

namespace bytetape::cpu {
namespace {

template <class T>
Row<T> row_of(const ConstView& x, std::int64_t i) {
  return {reinterpret_cast<const char*>(x.as<T>() + i * x.shape[1]), sizeof(T), x.shape[1]};
}

/// f(index of the first, values of a, values of b), piece by piece.
template <class T, class F>
void for_each_pair(const Row<T>& a, const Row<T>& b, F&& f) {
  detail::Source<T> source;
  a.for_each_piece(
      [&](std::int64_t at, const auto& v) { f(at, v, source.load(b.data + at * b.step, b.step, v.size())); });
}

/// A piece of weight or bias, or of what stands for one that is not there.
template <class C>
class Coefficients {
 public:
  Coefficients(const ConstView& v, C otherwise) : data_(v.defined() ? v.as<C>() : nullptr) {
    if (!data_) std::fill_n(same_, detail::chunk, otherwise);
  }
  ConstMap<C> piece(std::int64_t at, std::int64_t n) const { return {data_ ? data_ + at : same_, n}; }

 private:
  const C* data_;
  alignas(64) C same_[detail::chunk];
};

template <class T>
void store(const View& y, std::int64_t i, std::int64_t at, const auto& values) {
  store_piece<T>(reinterpret_cast<char*>(y.as<T>() + i * y.shape[1] + at), sizeof(T), values);
}

std::int64_t rows_grain(const ConstView& x) {
  return std::max<std::int64_t>(grain / 2 / std::max<std::int64_t>(x.shape[1], 1), 1);
}

template <class T>
void add_rows(const LayerNormArgs& a, std::int64_t i) {
  for_each_pair(row_of<T>(a.x, i), row_of<T>(a.residual, i),
                [&](std::int64_t at, const auto& v, const auto& r) { store<T>(a.sum, i, at, v + r); });
}

void layer_norm(const LayerNormArgs& a) {
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Coefficients<C> scale(a.weight, 1), shift(a.bias, 0);
    const bool adds = a.residual.defined();
    const auto n = static_cast<double>(a.x.shape[1]);
    parallel_for(a.x.shape[0], rows_grain(a.x), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (adds) add_rows<T>(a, i);
        const Row<T> row = row_of<T>(adds ? a.sum : a.x, i);
        const C center = row.sum() / static_cast<C>(n);
        double m1 = 0, m2 = 0;  // m1: what the rounding of a mean far from 0 left over
        row.for_each_piece([&](std::int64_t, const auto& v) {
          m1 += static_cast<double>(sum_of(v - center));
          m2 += static_cast<double>(sum_of((v - center).square()));
        });
        const double rest = m1 / n;
        const C r = static_cast<C>(1 / std::sqrt(std::max(m2 / n - rest * rest, 0.0) + a.eps)),
                off = static_cast<C>(rest);
        row.for_each_piece([&](std::int64_t at, const auto& v) {
          store<T>(a.y, i, at, (v - center - off) * r * scale.piece(at, v.size()) + shift.piece(at, v.size()));
        });
        a.mean.as<C>()[i] = center + off;
        a.rstd.as<C>()[i] = r;
      }
    });
  });
}

/// Rows whose shares of gw and gb are added up together. Blocks depend on the shape alone, so that the threads do not
/// show in the result.
struct RowBlocks {
  std::int64_t rows, length, count;
  explicit RowBlocks(const ConstView& x) : rows(x.shape[0]) {
    constexpr std::int64_t most = 64;
    length = std::max({rows_grain(x), (rows + most - 1) / most, std::int64_t{1}});
    count = (rows + length - 1) / length;
  }
};

/// gx = values, rounded, + addend where there is one.
template <class T>
void store_gradient(const LayerNormBackwardArgs& a, std::int64_t i, std::int64_t at, const auto& values) {
  if (!a.addend.defined()) return store<T>(a.gx, i, at, values);
  alignas(64) T rounded[detail::chunk];
  detail::Source<T> source, other;
  const std::int64_t n = values.size();
  store_piece<T>(reinterpret_cast<char*>(rounded), sizeof(T), values);
  store<T>(a.gx, i, at,
           source.load(reinterpret_cast<const char*>(rounded), sizeof(T), n) +
               other.load(row_of<T>(a.addend, i).data + at * sizeof(T), sizeof(T), n));
}

// With h = (x - mean) rstd and g = gy weight: gb = sum(gy), gw = sum(gy h) over the rows, and in each row
// gx = rstd (g - mean(g) - h mean(g h)) + addend.
template <class T, class C = compute_t<T>>
void backward_of_block(const LayerNormBackwardArgs& a, std::int64_t begin, std::int64_t end, C* gw, C* gb) {
  const Coefficients<C> scale(a.weight, 1);
  const std::int64_t n = a.x.shape[1];
  std::fill_n(gw, n, C{0});
  std::fill_n(gb, n, C{0});
  for (std::int64_t i = begin; i < end; ++i) {
    const Row<T> x = row_of<T>(a.x, i), gy = row_of<T>(a.gy, i);
    const C center = a.mean.as<C>()[i], r = a.rstd.as<C>()[i];
    double sum = 0, product = 0;
    for_each_pair(x, gy, [&](std::int64_t at, const auto& v, const auto& g) {
      const auto w = scale.piece(at, v.size());
      Eigen::Map<Array<C>>(gw + at, v.size()) += g * ((v - center) * r);
      Eigen::Map<Array<C>>(gb + at, v.size()) += g;
      sum += static_cast<double>(sum_of(g * w));
      product += static_cast<double>(sum_of(g * w * ((v - center) * r)));
    });
    if (!a.gx.defined()) continue;
    const C share = static_cast<C>(sum / static_cast<double>(n)),
            slope = static_cast<C>(product / static_cast<double>(n));
    for_each_pair(x, gy, [&](std::int64_t at, const auto& v, const auto& g) {
      store_gradient<T>(a, i, at, (g * scale.piece(at, v.size()) - share - (v - center) * r * slope) * r);
    });
  }
}

Plan plan_layer_norm_backward(const LayerNormBackwardArgs& a) {
  const std::size_t number = a.x.dtype == DType::f64 ? sizeof(double) : sizeof(float);
  return {.workspace = 2 * static_cast<std::size_t>(RowBlocks(a.x).count * a.x.shape[1]) * number};
}

void layer_norm_backward(const LayerNormBackwardArgs& a, const Plan&, Workspace ws) {
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const RowBlocks blocks(a.x);
    const std::int64_t n = a.x.shape[1];
    auto* partials = static_cast<C*>(ws.data);
    parallel_for(blocks.count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        backward_of_block<T>(a, b * blocks.length, std::min(blocks.rows, (b + 1) * blocks.length), partials + 2 * b * n,
                             partials + (2 * b + 1) * n);
    });
    parallel_for(n, std::max<std::int64_t>(grain / 2 / std::max<std::int64_t>(blocks.count, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (int which = 0; which < 2; ++which) {
                     const View& to = which == 0 ? a.gw : a.gb;
                     if (!to.defined()) continue;
                     for (std::int64_t j = begin; j < end; ++j) {
                       double total = 0;
                       for (std::int64_t b = 0; b < blocks.count; ++b)
                         total += static_cast<double>(partials[(2 * b + which) * n + j]);
                       to.as<C>()[j] = static_cast<C>(total);
                     }
                   }
                 });
  });
}

}  // namespace

const LayerNormKernels& layer_norm_kernels() {
  static const LayerNormKernels all{
      .layer_norm = layer_norm,
      .layer_norm_backward = {plan_layer_norm_backward, layer_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cpu
