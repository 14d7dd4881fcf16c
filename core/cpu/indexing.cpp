// Selects and sums slices by index. Loops walk the result, x, and a third operand that steps along the indexed dim
// only: the index, or the start of each slice's places. If its step is 0, a run is within one slice.
#include <cstring>

#include "bytetape/core/cpu/indices.h"
#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/fault.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"

namespace bytetape::cpu {
namespace {

/// Returns the loop over y, x's slice 0, and `numbers`, which has one number per slice, `step` apart.
Loop<3> make_slice_loop(const View& y, const ConstView& x, int dim, const std::int64_t* numbers, std::int64_t step) {
  ConstView first = x, along(numbers, DType::i64, y.device, y.shape, Dims::filled(y.rank(), 0));
  first.shape = y.shape;
  first.strides[dim] = 0;
  along.strides[dim] = step;
  return make_loop<3>({&y, &first, &along});
}

template <class T>
void copy_run(char* y, std::int64_t y_step, const char* x, std::int64_t x_step, std::int64_t n) {
  if (y_step == sizeof(T) && x_step == sizeof(T)) {
    std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(y + i * y_step, x + i * x_step, sizeof(T));
}

template <class T>
void zero_run(char* y, std::int64_t y_step, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) std::memset(y + i * y_step, 0, sizeof(T));
}

/// Calls run(number, y, y_step, x, x_step, n) for each run of n elements within one slice.
template <class F>
void for_each_run(const Loop<3>& loop, const F& run, std::int64_t grain_size = grain) {
  for_each_row(
      loop,
      [&](std::int64_t n, const auto& p, const auto& step) {
        if (step[2] == 0) return run(&number_at(p[2]), p[0], step[0], p[1], step[1], n);
        for (std::int64_t i = 0; i < n; ++i)
          run(&number_at(p[2] + i * step[2]), p[0] + i * step[0], step[0], p[1] + i * step[1], step[1], 1);
      },
      grain_size);
}

void index_select(const IndexSelectArgs& a) {
  check_indices(a.index, a.x.shape[a.dim]);
  if (a.y.numel() == 0) return;
  const std::int64_t slice = slice_step(a.x, a.dim);
  visit_bits(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_run(make_slice_loop(a.y, a.x, a.dim, a.index.as<std::int64_t>(), a.index.strides[0]),
                 [&](const std::int64_t* number, char* y, std::int64_t y_step, const char* x, std::int64_t x_step,
                     std::int64_t n) {
                   if (*number == a.skipped) return zero_run<T>(y, y_step, n);
                   copy_run<T>(y, y_step, x + *number * slice, x_step, n);
                 });
  });
}

template <class Args>
Plan plan(const Args& a) {
  return {.workspace = static_cast<std::size_t>(a.y.shape[a.dim] + 1 + a.index.shape[0]) * sizeof(std::int64_t)};
}

/// Sorts the places of an index by their slice with a counting sort. Those of slice i are places[starts[i]] ..
/// places[starts[i + 1]] - 1, in order.
struct Places {
  std::int64_t *starts, *places;

  Places(const ConstView& index, std::int64_t slices, std::int64_t skipped, void* ws)
      : starts(static_cast<std::int64_t*>(ws)), places(starts + slices + 1) {
    const std::int64_t m = index.shape[0];
    const auto at = [&](std::int64_t j) { return index.as<std::int64_t>()[j * index.strides[0]]; };
    const auto is_slice = [&](std::int64_t i) { return i >= 0 && i < slices && i != skipped; };
    std::fill_n(starts, slices + 1, 0);
    for (std::int64_t j = 0; j < m; ++j)
      if (is_slice(at(j))) ++starts[at(j) + 1];
    for (std::int64_t i = 0; i < slices; ++i) starts[i + 1] += starts[i];
    for (std::int64_t j = 0; j < m; ++j)
      if (is_slice(at(j))) places[starts[at(j)]++] = j;
    for (std::int64_t i = slices; i > 0; --i) starts[i] = starts[i - 1];  // each was moved to the next slice's start
    starts[0] = 0;
  }
};

// Out of line, so that the compiler knows which pointers do not alias.
template <class T, class C>
[[gnu::noinline]] void add_run(const char* x, std::int64_t x_step, std::int64_t n, C* __restrict sums) {
  const auto add = [](C& sum, const T& v) { sum = static_cast<C>(sum + static_cast<C>(v)); };
  if (x_step == sizeof(T)) {
    const auto* from = reinterpret_cast<const T*>(x);
    for (std::int64_t i = 0; i < n; ++i) add(sums[i], from[i]);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) add(sums[i], *reinterpret_cast<const T*>(x + i * x_step));
}

/// Sums n elements of one slice, whose places are [begin, end). Adds the old values of y first if `adds`.
template <class T>
void sum_run(const Places& by_slice, std::int64_t begin, std::int64_t end, std::int64_t slice, char* y,
             std::int64_t y_step, const char* x, std::int64_t x_step, std::int64_t n, bool adds) {
  using C = compute_t<T>;
  constexpr std::int64_t most = 256;
  alignas(64) C sums[most];
  for (std::int64_t at = 0; at < n; at += most) {
    const std::int64_t count = std::min(most, n - at);
    std::fill_n(sums, count, C{0});
    if (adds) add_run<T>(y + at * y_step, y_step, count, sums);
    for (std::int64_t k = begin; k < end; ++k)
      add_run<T>(x + by_slice.places[k] * slice + at * x_step, x_step, count, sums);
    for (std::int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(y + (at + i) * y_step) = static_cast<T>(sums[i]);
  }
}

/// Sums the places of each slice of y. If `adds`, slices without places stay as they are. A slice with many places is
/// divided among all threads; else one thread might do most of the work.
template <class T>
void sum_slices(const ConstView& x, int dim, const View& y, const Places& by_slice, std::int64_t places, bool adds) {
  const std::int64_t slices = y.shape[dim], slice = slice_step(x, dim);
  const std::int64_t many = std::max<std::int64_t>(places / (4 * num_threads()), 64);
  const auto sum = [&](const std::int64_t* share, char* to, std::int64_t to_step, const char* from,
                       std::int64_t from_step, std::int64_t n) {
    if (!adds || share[0] < share[1])
      sum_run<T>(by_slice, share[0], share[1], slice, to, to_step, from, from_step, n, adds);
  };
  for_each_run(
      make_slice_loop(y, x, dim, by_slice.starts, 1),
      [&](const std::int64_t* share, auto... run) {
        if (share[1] - share[0] <= many) sum(share, run...);
      },
      std::max<std::int64_t>(grain / (1 + places / slices), 1));
  View one = y;
  one.shape[dim] = 1;
  for (std::int64_t i = 0; i < slices; ++i) {
    const std::int64_t* const share = by_slice.starts + i;
    if (share[1] - share[0] <= many) continue;
    Loop<3> loop = make_slice_loop(one, x, dim, share, 0);
    loop.data[0] += i * slice_step(y, dim);
    for_each_run(loop, sum, std::max<std::int64_t>(grain / (share[1] - share[0]), 16));
  }
}

void sum_into(const ConstView& x, const ConstView& index, int dim, const View& y, std::int64_t skipped, bool adds,
              Workspace ws) {
  if (y.numel() == 0) return;
  const Places by_slice(index, y.shape[dim], skipped, ws.data);
  visit_wrapping(y.dtype, [&](auto zero) { sum_slices<decltype(zero)>(x, dim, y, by_slice, index.shape[0], adds); });
}

void index_sum(const IndexSumArgs& a, const Plan&, Workspace ws) {
  sum_into(a.x, a.index, a.dim, a.y, a.skipped, false, ws);
}

void index_add(const IndexWriteArgs& a, const Plan&, Workspace ws) {
  check_indices(a.index, a.y.shape[a.dim]);
  sum_into(a.x, a.index, a.dim, a.y, a.skipped, true, ws);
}

void index_copy(const IndexWriteArgs& a, const Plan&, Workspace ws) {
  check_indices(a.index, a.y.shape[a.dim]);
  if (a.y.numel() == 0) return;
  const std::int64_t slice = slice_step(a.x, a.dim);
  const Places by_slice(a.index, a.y.shape[a.dim], a.skipped, ws.data);
  visit_bits(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_run(make_slice_loop(a.y, a.x, a.dim, by_slice.starts, 1),
                 [&](const std::int64_t* share, char* y, std::int64_t y_step, const char* x, std::int64_t x_step,
                     std::int64_t n) {
                   if (share[0] < share[1])
                     copy_run<T>(y, y_step, x + by_slice.places[share[1] - 1] * slice, x_step, n);
                 });
  });
}

void flat_index(const FlatIndexArgs& a) {
  const auto at = [](const ConstView& v, std::int64_t j) { return v.as<std::int64_t>()[j * v.strides[0]]; };
  const std::int64_t n = a.y.shape[0];
  for (std::int64_t j = 0; j < n; ++j)
    if (const std::int64_t i = at(a.index, j); i < -a.size || i >= a.size)
      throw_fault({Fault::Kind::from_end, i, a.size});
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t i = at(a.index, j), before = a.base.defined() ? at(a.base, j) * a.size : 0;
      a.y.as<std::int64_t>()[j] = before + i + (i < 0 ? a.size : 0);
    }
  });
}

void one_hot(const ConstView& index, const View& y) {
  const std::int64_t classes = y.shape[1];
  check_indices(index, classes);
  parallel_for(index.shape[0], std::max<std::int64_t>(grain / classes, 1), [&](std::int64_t begin, std::int64_t end) {
    auto* to = y.as<std::int64_t>();
    std::fill(to + begin * classes, to + end * classes, 0);
    for (std::int64_t j = begin; j < end; ++j) to[j * classes + index.as<std::int64_t>()[j * index.strides[0]]] = 1;
  });
}

}  // namespace

const IndexingKernels& indexing_kernels() {
  static const IndexingKernels all{
      .index_select = index_select,
      .index_sum = {plan<IndexSumArgs>, index_sum},
      .index_copy = {plan<IndexWriteArgs>, index_copy},
      .index_add = {plan<IndexWriteArgs>, index_add},
      .flat_index = flat_index,
      .one_hot = one_hot,
  };
  return all;
}

}  // namespace bytetape::cpu
