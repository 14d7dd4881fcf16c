#pragma once
#include <cstring>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/integers.h"

namespace bytetape::cpu {
namespace detail {

template <class T>
void gather(const char* x, std::int64_t step, std::int64_t n, compute_t<T>* to) {
  if (Source<T>::direct(step))
    std::memcpy(to, x, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<compute_t<T>>(*reinterpret_cast<const T*>(x + i * step));
}

template <class T>
void scatter(const compute_t<T>* from, std::int64_t n, char* y, std::int64_t step) {
  if (Source<T>::direct(step))
    std::memcpy(y, from, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (std::int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(y + i * step) = static_cast<T>(from[i]);
}

/// A chunk of elements in the compute type.
template <class C>
struct Chunk {
  alignas(64) C values[chunk];
  Eigen::Map<Array<C>, Eigen::Aligned64> first(std::int64_t n) { return {values, n}; }
};

}  // namespace detail

/// Computes f(y, x...), which sets y. For functions whose last bits differ between Eigen's vector and scalar code.
/// Always uses whole vectors, so that an element's bits do not depend on its place or on the number of threads.
template <class T, class F, class... X>
void in_whole_vectors(const F& f, const View& y, const X&... x) {
  using C = compute_t<T>;
  constexpr std::size_t K = sizeof...(X);
  constexpr std::int64_t widest = 64 / sizeof(C);
  const auto row = [&](std::int64_t n, const auto& p, const auto& step) {
    std::array<detail::Chunk<C>, K> in;
    detail::Chunk<C> out;
    for (std::int64_t at = 0; at < n; at += detail::chunk) {
      const std::int64_t m = std::min(detail::chunk, n - at), whole = round_up(m, widest);
      for (std::size_t k = 0; k < K; ++k) {
        detail::gather<T>(p[k + 1] + at * step[k + 1], step[k + 1], m, in[k].values);
        std::fill(in[k].values + m, in[k].values + whole, C{1});
      }
      auto result = out.first(whole);
      std::apply([&](auto&... chunks) { f(result, chunks.first(whole)...); }, in);
      detail::scatter<T>(out.values, m, p[0] + at * step[0], step[0]);
    }
  };
  for_each_row(make_loop<K + 1>({&y, &x...}), row, grain / 4);
}

/// As in_whole_vectors(), for any floating y. f is generic over the compute type.
template <class F, class... X>
void smooth(const F& f, const View& y, const X&... x) {
  visit_floating(y.dtype, [&](auto zero) { in_whole_vectors<decltype(zero)>(f, y, x...); });
}

/// Computes y = f(x...) for a floating y. f takes single numbers, and has the same bits in vector and scalar code.
template <class F, class... X>
void exact(const F& f, const View& y, const X&... x) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof...(X) == 1)
      elementwise<T, T>([&](const auto& a) { return a.unaryExpr(f); }, y, x...);
    else
      elementwise<T, T, T>([&](const auto& a, const auto& b) { return a.binaryExpr(b, f); }, y, x...);
  });
}

}  // namespace bytetape::cpu
