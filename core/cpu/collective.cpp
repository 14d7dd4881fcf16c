// Collectives on host memory. A reduction receives the other ranks' parts into the workspace, and then combines them in
// the order of ranks, so that the result has the same bits in every run.
#include "bytetape/core/kernels/collective.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

Plan plan(const CollectiveArgs& a) {
  const bool reduces = a.kind == Collective::all_reduce || a.kind == Collective::reduce_scatter;
  if (!reduces || a.size == 1) return {};
  const std::int64_t part = (a.x.numel() + a.size - 1) / a.size;
  return {.workspace = static_cast<std::size_t>(part * (a.size - 1)) * size_of(a.x.dtype)};
}

void exchange(const CollectiveArgs& a, const Plan&, Workspace ws) { a.communicator->run(a, ws); }

/// Sums of integers wrap around, as those of other kernels.
template <class T>
struct Wrapping {
  using type = std::make_unsigned_t<T>;
};
template <class T>
using sum_t = typename std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, Wrapping<T>,
                                          std::type_identity<compute_t<T>>>::type;

/// min and max pass NaNs on.
template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a)) return a;
  return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a)) return a;
  return a > b ? a : b;
}

constexpr std::int64_t block = 1024;  // elements whose intermediate results stay in the cache

/// Combines elements begin to end with f, and divides by `divisor` unless it is 1. Each block is read from all parts
/// before y, which may be one of them, is written.
template <class T, class Acc, class F>
void combine_range(std::span<const ConstView> parts, const View& y, std::int64_t begin, std::int64_t end, Acc divisor,
                   F f) {
  Acc acc[block];
  for (std::int64_t at = begin; at < end; at += block) {
    const std::int64_t n = std::min(block, end - at);
    const auto in = [&](std::size_t r) { return parts[r].as<T>() + at; };
    for (std::int64_t i = 0; i < n; ++i) acc[i] = static_cast<Acc>(in(0)[i]);
    for (std::size_t r = 1; r < parts.size(); ++r)
      for (std::int64_t i = 0; i < n; ++i) acc[i] = f(acc[i], static_cast<Acc>(in(r)[i]));
    if (divisor != Acc{1})
      for (std::int64_t i = 0; i < n; ++i) acc[i] = static_cast<Acc>(acc[i] / divisor);
    T* const out = y.as<T>() + at;
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(acc[i]);
  }
}

template <class T, class Acc, class F>
void combine_with(std::span<const ConstView> parts, const View& y, F f, Acc divisor = Acc{1}) {
  parallel_for(y.numel(), grain,
               [&](std::int64_t begin, std::int64_t end) { combine_range<T, Acc>(parts, y, begin, end, divisor, f); });
}

template <class T>
void combine_as(std::span<const ConstView> parts, ReduceOp op, const View& y) {
  using Value = compute_t<T>;
  using Sum = sum_t<T>;
  const auto add = [](Sum a, Sum b) { return static_cast<Sum>(a + b); };
  switch (op) {
    case ReduceOp::min:
      return combine_with<T, Value>(parts, y, smaller<Value>);
    case ReduceOp::max:
      return combine_with<T, Value>(parts, y, larger<Value>);
    case ReduceOp::product:
      return combine_with<T, Sum>(parts, y, [](Sum a, Sum b) { return static_cast<Sum>(a * b); });
    case ReduceOp::sum:
      return combine_with<T, Sum>(parts, y, add);
    case ReduceOp::average:
      return combine_with<T, Sum>(parts, y, add, static_cast<Sum>(parts.size()));
  }
}

void combine(std::span<const ConstView> parts, ReduceOp op, const View& y) {
  visit(y.dtype, [&](auto zero) { combine_as<decltype(zero)>(parts, op, y); });
}

}  // namespace

const CollectiveKernels& collective_kernels() {
  static const CollectiveKernels all{.exchange = {plan, exchange}, .combine = combine};
  return all;
}

}  // namespace bytetape::cpu
