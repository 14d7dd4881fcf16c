#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {

template <class T>
using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
template <class T>
using ConstMap = Eigen::Map<const Array<T>>;

namespace detail {

inline constexpr std::int64_t chunk = 256;

/// A run of T elements as an Eigen array. It is read in place if it is dense and computed in T, else gathered in
/// chunks.
template <class T>
struct Source {
  using C = compute_t<T>;
  static constexpr bool converts = !std::is_same_v<T, C>;
  alignas(64) C buffer[chunk];
  bool is_number = false;  // whether the buffer holds a constant

  Source() {}  // the buffer stays uninitialised
  explicit Source(const ConstView& x) : is_number(converts && x.is_constant()) {
    if (is_number) std::fill_n(buffer, chunk, static_cast<C>(x.number()));
  }
  static bool direct(std::int64_t step) { return std::is_same_v<T, C> && step == sizeof(T); }
  ConstMap<C> load(const char* p, std::int64_t step, std::int64_t n) {
    if (is_number) return {buffer, n};
    if (direct(step)) return {reinterpret_cast<const C*>(p), n};
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = static_cast<C>(*reinterpret_cast<const T*>(p + i * step));
    return {buffer, n};
  }
};

template <class Out, class... In, class F, class Inputs, std::size_t... I>
void apply_row(const F& f, const Inputs& inputs, std::int64_t n, const std::array<char*, sizeof...(In) + 1>& p,
               const std::array<std::int64_t, sizeof...(In) + 1>& step, std::index_sequence<I...>) {
  using C = compute_t<Out>;
  std::tuple<Source<In>...> sources(std::get<I>(inputs)...);
  Source<Out> out;
  const bool out_direct = Source<Out>::direct(step[0]);
  const bool direct = out_direct && (Source<In>::direct(step[I + 1]) && ...);
  const std::int64_t piece = direct ? n : chunk;
  for (std::int64_t at = 0; at < n; at += piece) {
    const std::int64_t m = std::min(piece, n - at);
    char* y = p[0] + at * step[0];
    Eigen::Map<Array<C>> result(out_direct ? reinterpret_cast<C*>(y) : out.buffer, m);
    result = f(std::get<I>(sources).load(p[I + 1] + at * step[I + 1], step[I + 1], m)...);
    if (!out_direct)
      for (std::int64_t i = 0; i < m; ++i) *reinterpret_cast<Out*>(y + i * step[0]) = static_cast<Out>(out.buffer[i]);
  }
}

}  // namespace detail

/// Computes y = f(x...) elementwise. Out and In are the stored element types. f takes Eigen arrays of the compute types
/// and returns an array expression.
template <class Out, class... In, class F, class... X>
void elementwise(const F& f, const View& y, const X&... x) {
  const auto row = [&](std::int64_t n, const auto& p, const auto& step) {
    detail::apply_row<Out, In...>(f, std::tie(x...), n, p, step, std::index_sequence_for<In...>());
  };
  constexpr std::size_t K = sizeof...(In) + 1;
  const std::int64_t n = numel(y.shape);
  if (n == 0) return;
  if (n < grain && y.is_contiguous() && ((x.is_constant() || x.is_contiguous()) && ...)) {  // one dense run
    const auto step = [](const ConstView& v) {
      return v.is_constant() ? 0 : static_cast<std::int64_t>(size_of(v.dtype));
    };
    row(n, std::array<char*, K>{address(y), address(x)...}, std::array<std::int64_t, K>{step(y), step(x)...});
    return;
  }
  for_each_row(make_loop<K>({&y, &x...}), row);
}

}  // namespace bytetape::cpu
