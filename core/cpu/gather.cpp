// Elements by index. gather() walks index, and finds x's element from the place where its line along dim begins.
// scatter() and scatter_add() write lines along dim in parallel and the elements of a line in order: only those can
// meet.
#include "bytetape/core/kernels/gather.h"

#include <cstring>

#include "bytetape/core/cpu/indices.h"
#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"

namespace bytetape::cpu {
namespace {

void gather(const GatherArgs& a) {
  check_indices(a.index, a.x.shape[a.dim]);
  if (a.y.numel() == 0) return;
  const std::int64_t slice = slice_step(a.x, a.dim);
  ConstView first = a.x;
  first.shape = a.y.shape;
  first.strides[a.dim] = 0;
  visit_bits(a.y.dtype, [&](auto zero) {
    for_each_row(make_loop<3>({&a.y, &first, &a.index}), [&](std::int64_t n, const auto& p, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i)
        std::memcpy(p[0] + i * step[0], p[1] + i * step[1] + number_at(p[2] + i * step[2]) * slice, sizeof zero);
    });
  });
}

using Pointers = std::array<char*, 3>;
using Steps = std::array<std::int64_t, 3>;

/// The lines of y, x and index along dim.
struct Lines {
  std::int64_t length;
  Steps along;    // byte steps within a line
  Loop<3> loops;  // over the first elements of the lines

  explicit Lines(const ScatterArgs& a)
      : length(a.index.shape[a.dim]), along{slice_step(a.y, a.dim), 0, slice_step(a.index, a.dim)} {
    ConstView y = a.y, x = a.x, index = a.index;
    index.shape[a.dim] = 1;
    x.shape = y.shape = index.shape;
    if (!x.is_constant()) along[1] = slice_step(a.x, a.dim);
    loops = make_loop<3>({&y, &x, &index});
    loops.data[1] = address(a.x);  // that of a constant is in the view
  }
  std::int64_t count() const { return numel(loops.shape); }
  std::int64_t grain_size() const { return std::max<std::int64_t>(grain / length, 1); }

  /// Calls f(index, y's line, x's element) for the elements of n lines, in order within each line.
  template <class F>
  void walk(const Pointers& p, const Steps& across, std::int64_t n, const F& f) const {
    const std::int64_t at_once = across[2] < along[2] ? 256 : 1;  // adjacent lines run side by side
    for (std::int64_t first = 0; first < n; first += at_once)
      for (std::int64_t j = 0; j < length; ++j)
        for (std::int64_t i = first; i < std::min(first + at_once, n); ++i)
          f(number_at(p[2] + i * across[2] + j * along[2]), p[0] + i * across[0], p[1] + i * across[1] + j * along[1]);
  }
};

void scatter(const ScatterArgs& a, const Plan&, Workspace) {
  check_indices(a.index, a.y.shape[a.dim]);
  if (a.index.numel() == 0) return;
  const Lines lines(a);
  visit_bits(a.y.dtype, [&](auto zero) {
    const auto put = [&](std::int64_t i, char* y, const char* x) {
      std::memcpy(y + i * lines.along[0], x, sizeof zero);
    };
    for_each_row(
        lines.loops, [&](std::int64_t n, const auto& p, const auto& step) { lines.walk(p, step, n, put); },
        lines.grain_size());
  });
}

// ---- sums

bool is_low(DType t) { return is_floating(t) && size_of(t) == 2; }

// 16-bit floats are summed in f32, one line at a time. Each part of the lines needs f32 sums for one line of y.
Plan plan_sums(const ScatterArgs& a) {
  if (!is_low(a.y.dtype) || a.index.numel() == 0) return {};
  const std::int64_t lines = a.index.numel() / a.index.shape[a.dim],
                     parts = std::clamp<std::int64_t>(a.index.numel() / grain, 1,
                                                      std::min<std::int64_t>(lines, num_threads()));
  return {.workspace = static_cast<std::size_t>(parts * a.y.shape[a.dim]) * sizeof(float), .algorithm = parts};
}

template <class T>
T& as(char* p) {
  return *reinterpret_cast<T*>(p);
}
template <class T>
const T& as(const char* p) {
  return *reinterpret_cast<const T*>(p);
}

/// Adds the elements of one line to y.
template <class T>
void add_line(const Lines& lines, const Pointers& p, float* sums) {
  const auto walk = [&](const auto& f) { lines.walk(p, {}, 1, f); };
  const std::int64_t step = lines.along[0];
  walk([&](std::int64_t i, const char* y, const char*) { sums[i] = static_cast<float>(as<T>(y + i * step)); });
  walk([&](std::int64_t i, const char*, const char* x) { sums[i] += static_cast<float>(as<T>(x)); });
  walk([&](std::int64_t i, char* y, const char*) { as<T>(y + i * step) = static_cast<T>(sums[i]); });
}

template <class T>
void add_low(const Lines& lines, std::int64_t parts, std::int64_t size, float* sums) {
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      walk_rows(
          lines.loops, lines.count() * part / parts, lines.count() * (part + 1) / parts,
          [&](std::int64_t n, const auto& p, const auto& step) {
            for (std::int64_t i = 0; i < n; ++i)
              add_line<T>(lines, {p[0] + i * step[0], p[1] + i * step[1], p[2] + i * step[2]}, sums + part * size);
          });
  });
}

void scatter_add(const ScatterArgs& a, const Plan& plan, Workspace ws) {
  check_indices(a.index, a.y.shape[a.dim]);
  if (a.index.numel() == 0) return;
  const Lines lines(a);
  visit_wrapping(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_arithmetic_v<T>)
      add_low<T>(lines, plan.algorithm, a.y.shape[a.dim], static_cast<float*>(ws.data));
    else
      for_each_row(
          lines.loops,
          [&](std::int64_t n, const auto& p, const auto& step) {
            lines.walk(p, step, n, [&](std::int64_t i, char* y, const char* x) {
              T& to = as<T>(y + i * lines.along[0]);
              to = static_cast<T>(to + as<T>(x));
            });
          },
          lines.grain_size());
  });
}

}  // namespace

const GatherKernels& gather_kernels() {
  static const GatherKernels all{
      .gather = gather,
      .scatter = {[](const ScatterArgs&) { return Plan(); }, scatter},
      .scatter_add = {plan_sums, scatter_add},
  };
  return all;
}

}  // namespace bytetape::cpu
