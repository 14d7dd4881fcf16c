// Steps of recurrent layers. A thread computes units of a row from all of their gates: a vector of them if memory
// allows it and there is enough work for the whole GPU, else one.
#include "bytetape/core/kernels/recurrent.h"

#include <algorithm>
#include <initializer_list>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/overlap.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class C>
__device__ C sigmoid_of(C x) {
  return 1 / (1 + ::exp(-x));
}
/// The derivative of sigmoid and of tanh, where their result is y.
template <class C>
__device__ C sigmoid_slope(C y) {
  return y * (1 - y);
}
template <class C>
__device__ C tanh_slope(C y) {
  return 1 - y * y;
}

/// Units of one row in the compute type.
template <class T, int n>
struct Units {
  compute_t<T> values[n] = {};
  __device__ compute_t<T>& operator[](int k) { return values[k]; }
  __device__ const compute_t<T>& operator[](int k) const { return values[k]; }
};

/// A matrix of rows, or an optional one that is missing.
template <class T>
struct Rows {
  T* data;
  std::int64_t row_step, step;

  template <class V>
  explicit Rows(const V& x)
      : data(x.template as<std::remove_const_t<T>>()),
        row_step(x.defined() ? x.strides[0] : 0),
        step(x.defined() ? x.strides[1] : 0) {}
  /// Returns n elements from a column on; zeros of a missing matrix.
  template <int n>
  __device__ Units<std::remove_const_t<T>, n> load(std::int64_t row, std::int64_t column) const {
    Units<std::remove_const_t<T>, n> units;
    if (!data) return units;
    const auto packed = cuda::load<n>(data + row * row_step + column * step);
#pragma unroll
    for (int k = 0; k < n; ++k) units[k] = widened(packed.values[k]);
    return units;
  }
  template <int n>
  __device__ void store(std::int64_t row, std::int64_t column, const Units<T, n>& units) const {
    if (!data) return;
    Packed<T, n> packed;
#pragma unroll
    for (int k = 0; k < n; ++k) packed.values[k] = narrowed<T>(units[k]);
    packed.store(data + row * row_step + column * step);
  }
};

template <class T>
struct LstmCell {
  Rows<const T> from_x, from_h, c;
  Rows<T> h, next_c, activated;

  explicit LstmCell(const LstmCellArgs& a)
      : from_x(a.from_x), from_h(a.from_h), c(a.c), h(a.h), next_c(a.next_c), activated(a.activated) {}

  /// Computes n units of a row.
  template <int n>
  __device__ void run(std::int64_t row, std::int64_t unit, std::int64_t hidden) const {
    Units<T, n> gates[4], state = c.template load<n>(row, unit), out;
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      gates[g] = from_x.template load<n>(row, g * hidden + unit);
      const auto more = from_h.template load<n>(row, g * hidden + unit);
#pragma unroll
      for (int k = 0; k < n; ++k) gates[g][k] += more[k];
    }
    auto &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      i[k] = sigmoid_of(i[k]);
      f[k] = sigmoid_of(f[k]);
      g[k] = ::tanh(g[k]);
      o[k] = sigmoid_of(o[k]);
      state[k] = f[k] * state[k] + i[k] * g[k];
      out[k] = o[k] * ::tanh(state[k]);
    }
    h.store(row, unit, out);
    next_c.store(row, unit, state);
#pragma unroll
    for (int g = 0; g < 4; ++g) activated.store(row, g * hidden + unit, gates[g]);
  }
};

// No pointer is __restrict__, because gradients may overwrite the activated gates and the gradient of c.
template <class T>
struct LstmCellBackward {
  Rows<const T> activated, c, gh, more_gh, gnext_c;
  Rows<T> ggates, gc;

  explicit LstmCellBackward(const LstmCellBackwardArgs& a)
      : activated(a.activated), c(a.c), gh(a.gh), more_gh(a.more_gh), gnext_c(a.gnext_c), ggates(a.ggates), gc(a.gc) {}

  template <int n>
  __device__ void run(std::int64_t row, std::int64_t unit, std::int64_t hidden) const {
    Units<T, n> gates[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) gates[g] = activated.template load<n>(row, g * hidden + unit);
    const auto state = c.template load<n>(row, unit);
    auto of_h = gh.template load<n>(row, unit), of_c = gnext_c.template load<n>(row, unit);
    const auto more = more_gh.template load<n>(row, unit);
    auto &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      of_h[k] += more[k];
      const compute_t<T> t = ::tanh(f[k] * state[k] + i[k] * g[k]);
      of_c[k] += of_h[k] * o[k] * tanh_slope(t);
      const compute_t<T> of_i = of_c[k] * g[k] * sigmoid_slope(i[k]), of_g = of_c[k] * i[k] * tanh_slope(g[k]),
                         of_f = of_c[k] * state[k] * sigmoid_slope(f[k]), of_o = of_h[k] * t * sigmoid_slope(o[k]);
      of_c[k] *= f[k];
      i[k] = of_i;
      f[k] = of_f;
      g[k] = of_g;
      o[k] = of_o;
    }
    gc.store(row, unit, of_c);
#pragma unroll
    for (int g = 0; g < 4; ++g) ggates.store(row, g * hidden + unit, gates[g]);
  }
};

template <class T>
struct GruCell {
  Rows<const T> from_x, from_h, h;
  Rows<T> next_h, kept;

  explicit GruCell(const GruCellArgs& a) : from_x(a.from_x), from_h(a.from_h), h(a.h), next_h(a.next_h), kept(a.kept) {}

  template <int n>
  __device__ void run(std::int64_t row, std::int64_t unit, std::int64_t hidden) const {
    Units<T, n> x[3], of_h[3], state = h.template load<n>(row, unit);
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      x[g] = from_x.template load<n>(row, g * hidden + unit);
      of_h[g] = from_h.template load<n>(row, g * hidden + unit);
    }
    auto &r = x[0], &z = x[1], &fresh = x[2];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      r[k] = sigmoid_of(r[k] + of_h[0][k]);
      z[k] = sigmoid_of(z[k] + of_h[1][k]);
      fresh[k] = ::tanh(fresh[k] + r[k] * of_h[2][k]);
      state[k] = fresh[k] + z[k] * (state[k] - fresh[k]);
    }
    next_h.store(row, unit, state);
#pragma unroll
    for (int g = 0; g < 4; ++g) kept.store(row, g * hidden + unit, g < 3 ? x[g] : of_h[2]);
  }
};

template <class T>
struct GruCellBackward {
  Rows<const T> kept, h, gnext_h, more_gnext_h;
  Rows<T> gfrom_x, gfrom_h, gh;

  explicit GruCellBackward(const GruCellBackwardArgs& a)
      : kept(a.kept),
        h(a.h),
        gnext_h(a.gnext_h),
        more_gnext_h(a.more_gnext_h),
        gfrom_x(a.gfrom_x),
        gfrom_h(a.gfrom_h),
        gh(a.gh) {}

  template <int n>
  __device__ void run(std::int64_t row, std::int64_t unit, std::int64_t hidden) const {
    Units<T, n> parts[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) parts[g] = kept.template load<n>(row, g * hidden + unit);
    const auto state = h.template load<n>(row, unit), more = more_gnext_h.template load<n>(row, unit);
    auto gradient = gnext_h.template load<n>(row, unit);
    auto &r = parts[0], &z = parts[1], &fresh = parts[2], &from_h = parts[3];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const compute_t<T> g = gradient[k] + more[k], of_n = g * (1 - z[k]) * tanh_slope(fresh[k]),
                         of_r = of_n * from_h[k] * sigmoid_slope(r[k]),
                         of_z = g * (state[k] - fresh[k]) * sigmoid_slope(z[k]);
      gradient[k] = g * z[k];
      from_h[k] = of_n * r[k];
      fresh[k] = of_n;
      r[k] = of_r;
      z[k] = of_z;
    }
    gh.store(row, unit, gradient);
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      gfrom_x.store(row, g * hidden + unit, parts[g]);
      gfrom_h.store(row, g * hidden + unit, g < 2 ? parts[g] : from_h);
    }
  }
};

constexpr int threads = 128;  // of a block; more blocks than of block_size, as steps are small

template <int n, class Step>
__global__ void __launch_bounds__(threads)
    step_kernel(Turn turn, const __grid_constant__ Step step, std::int64_t rows, std::int64_t hidden) {
  wait_for_earlier_work(turn);
  const std::int64_t per_row = hidden / n, count = rows * per_row;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * threads) {
    const std::int64_t row = i / per_row;
    step.template run<n>(row, (i - row * per_row) * n, hidden);
  }
}

/// Launches a step for the state (rows, hidden). `operands` are all views, of which some may be undefined.
template <class T, class Step>
void launch(const Step& step, const ConstView& state, std::initializer_list<const ConstView*> operands) {
  constexpr int lanes = 16 / sizeof(T);
  const std::int64_t rows = state.shape[0], hidden = state.shape[1],
                     most_threads = std::int64_t{2048} * processors(state.device);
  if (rows == 0) return;
  const bool packs = std::ranges::all_of(operands, [](const ConstView* x) {
    return !x->defined() || (x->strides[1] == 1 && x->strides[0] % lanes == 0 && is_aligned(*x));
  });
  const bool are_vectors = packs && hidden % lanes == 0 && rows * hidden / lanes >= most_threads;
  const std::int64_t count = rows * hidden / (are_vectors ? lanes : 1);
  const auto blocks = static_cast<unsigned>(std::min((count + threads - 1) / threads, 2 * most_threads / threads));
  launch_overlapping({.device = state.device, .blocks = blocks, .threads = threads},
                     are_vectors ? step_kernel<lanes, Step> : step_kernel<1, Step>, step, rows, hidden);
}

void lstm_cell(const LstmCellArgs& a) {
  visit_floating(a.c.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch<T>(LstmCell<T>(a), a.c, {&a.from_x, &a.from_h, &a.c, &a.h, &a.next_c, &a.activated});
  });
}

void lstm_cell_backward(const LstmCellBackwardArgs& a) {
  visit_floating(a.c.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch<T>(LstmCellBackward<T>(a), a.c, {&a.activated, &a.c, &a.gh, &a.more_gh, &a.gnext_c, &a.ggates, &a.gc});
  });
}

void gru_cell(const GruCellArgs& a) {
  visit_floating(a.h.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch<T>(GruCell<T>(a), a.h, {&a.from_x, &a.from_h, &a.h, &a.next_h, &a.kept});
  });
}

void gru_cell_backward(const GruCellBackwardArgs& a) {
  visit_floating(a.h.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch<T>(GruCellBackward<T>(a), a.h, {&a.kept, &a.h, &a.gnext_h, &a.more_gnext_h, &a.gfrom_x, &a.gfrom_h, &a.gh});
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

}  // namespace bytetape::cuda
