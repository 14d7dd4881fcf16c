// Slices by index. Loops walk the result with a third operand beside it and x, which steps along the indexed dim alone:
// the index, or where each slice's share of it begins. So a run of elements within one slice is known by its step of 0.
#include <cstring>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/fault.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"

namespace bytetape::cpu {
namespace {

/// Throws where an element is not in [0, bound).
void check_indices(const ConstView& index, std::int64_t bound) {
  const auto* at = index.as<std::int64_t>();
  for (std::int64_t j = 0; j < index.shape[0]; ++j)
    if (const std::int64_t i = at[j * index.strides[0]]; i < 0 || i >= bound)
      throw_fault({Fault::Kind::index, i, bound});
}

/// Over y, with x's slice 0 in the place of each of y's, and `numbers`, one for each slice and the next `step` on.
Loop<3> make_slice_loop(const View& y, const ConstView& x, int dim, const std::int64_t* numbers, std::int64_t step) {
  ConstView first = x, along(numbers, DType::i64, y.device, y.shape, Dims::filled(y.rank(), 0));
  first.shape = y.shape;
  first.strides[dim] = 0;
  along.strides[dim] = step;
  return make_loop<3>({&y, &first, &along});
}

/// Of a dim of x, in bytes.
std::int64_t slice_step(const ConstView& x, int dim) {
  return x.strides[dim] * static_cast<std::int64_t>(size_of(x.dtype));
}

template <class T>
void copy_run(char* y, std::int64_t y_step, const char* x, std::int64_t x_step, std::int64_t n) {
  if (y_step == sizeof(T) && x_step == sizeof(T)) {
    std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(y + i * y_step, x + i * x_step, sizeof(T));
}

const std::int64_t& number_at(const char* p) { return *reinterpret_cast<const std::int64_t*>(p); }

void index_select(const IndexSelectArgs& a) {
  check_indices(a.index, a.x.shape[a.dim]);
  if (a.y.numel() == 0) return;
  const std::int64_t slice = slice_step(a.x, a.dim);
  visit_bits(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_row(make_slice_loop(a.y, a.x, a.dim, a.index.as<std::int64_t>(), a.index.strides[0]),
                 [&](std::int64_t n, const auto& p, const auto& step) {
                   if (step[2] == 0) return copy_run<T>(p[0], step[0], p[1] + number_at(p[2]) * slice, step[1], n);
                   for (std::int64_t i = 0; i < n; ++i)
                     std::memcpy(p[0] + i * step[0], p[1] + i * step[1] + number_at(p[2] + i * step[2]) * slice,
                                 sizeof(T));
                 });
  });
}

Plan plan(const IndexSumArgs& a) {
  return {.workspace = static_cast<std::size_t>(a.y.shape[a.dim] + 1 + a.index.shape[0]) * sizeof(std::int64_t)};
}

/// The places in an index by what they count, in their order: those of slice i are places[starts[i]] ..
/// places[starts[i + 1]] - 1. A counting sort.
struct Places {
  std::int64_t *starts, *places;

  Places(const ConstView& index, std::int64_t slices, void* ws)
      : starts(static_cast<std::int64_t*>(ws)), places(starts + slices + 1) {
    const std::int64_t m = index.shape[0];
    const auto at = [&](std::int64_t j) { return index.as<std::int64_t>()[j * index.strides[0]]; };
    const auto is_slice = [&](std::int64_t i) { return i >= 0 && i < slices; };
    std::fill_n(starts, slices + 1, 0);
    for (std::int64_t j = 0; j < m; ++j)
      if (is_slice(at(j))) ++starts[at(j) + 1];
    for (std::int64_t i = 0; i < slices; ++i) starts[i + 1] += starts[i];
    for (std::int64_t j = 0; j < m; ++j)
      if (is_slice(at(j))) places[starts[at(j)]++] = j;
    for (std::int64_t i = slices; i > 0; --i) starts[i] = starts[i - 1];  // each was moved on to the next one's
    starts[0] = 0;
  }
};

// Out of line, so that what does not alias is known to the compiler.
template <class T, class C>
[[gnu::noinline]] void add_run(const char* x, std::int64_t x_step, std::int64_t n, C* __restrict sums) {
  if (x_step == sizeof(T)) {
    const auto* from = reinterpret_cast<const T*>(x);
    for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<C>(from[i]);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<C>(*reinterpret_cast<const T*>(x + i * x_step));
}

/// n elements of one slice, whose share of the places is [begin, end).
template <class T>
void sum_run(const Places& by_slice, std::int64_t begin, std::int64_t end, std::int64_t slice, char* y,
             std::int64_t y_step, const char* x, std::int64_t x_step, std::int64_t n) {
  using C = compute_t<T>;
  constexpr std::int64_t most = 256;
  alignas(64) C sums[most];
  for (std::int64_t at = 0; at < n; at += most) {
    const std::int64_t count = std::min(most, n - at);
    std::fill_n(sums, count, C{0});
    for (std::int64_t k = begin; k < end; ++k)
      add_run<T>(x + by_slice.places[k] * slice + at * x_step, x_step, count, sums);
    for (std::int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(y + (at + i) * y_step) = static_cast<T>(sums[i]);
  }
}

void index_sum(const IndexSumArgs& a, const Plan&, Workspace ws) {
  if (a.y.numel() == 0) return;
  const std::int64_t slices = a.y.shape[a.dim], slice = slice_step(a.x, a.dim);
  const Places by_slice(a.index, slices, ws.data);
  visit_floating(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&](const char* start, char* y, std::int64_t y_step, const char* x, std::int64_t x_step,
                         std::int64_t n) {
      const auto* share = &number_at(start);
      sum_run<T>(by_slice, share[0], share[1], slice, y, y_step, x, x_step, n);
    };
    for_each_row(
        make_slice_loop(a.y, a.x, a.dim, by_slice.starts, 1),
        [&](std::int64_t n, const auto& p, const auto& step) {
          if (step[2] == 0) return run(p[2], p[0], step[0], p[1], step[1], n);
          for (std::int64_t i = 0; i < n; ++i)
            run(p[2] + i * step[2], p[0] + i * step[0], step[0], p[1] + i * step[1], step[1], 1);
        },
        std::max<std::int64_t>(grain / (1 + a.index.shape[0] / slices), 1));
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
      .index_sum = {plan, index_sum},
      .one_hot = one_hot,
  };
  return all;
}

}  // namespace bytetape::cpu
