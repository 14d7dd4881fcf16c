// The direction of a Muon step before it is orthogonalized, in two passes: squares of its elements are summed piece by
// piece, then it is computed again and divided by its norm. So it needs no memory between the passes.
#include "bytetape/core/cpu/muon.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bytetape/core/cpu/gradients.h"
#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// The elements that one partial sum covers. It does not depend on the number of threads.
constexpr std::int64_t piece = 4096;

std::int64_t pieces_of(const MuonSlot& s) { return (s.momentum_buffer.numel() + piece - 1) / piece; }

/// Calls f(slot's index, its piece, begin, end) for all pieces of all slots.
template <class F>
void for_each_piece(std::span<const MuonSlot> slots, F&& f) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t pieces = pieces_of(slots[i]), size = slots[i].momentum_buffer.numel();
    parallel_for(pieces, grain / piece, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t k = from; k < to; ++k) f(i, first + k, k * piece, std::min((k + 1) * piece, size));
    });
    first += pieces;
  }
}

/// Calls f(k, u) for the elements k from `begin` to `end` of the direction u, in the compute type of the buffer's
/// dtype.
template <class F>
void for_each_element(const MuonSlot& s, const MuonStepParams& p, std::int64_t begin, std::int64_t end, F&& f) {
  visit_floating(s.momentum_buffer.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto momentum = static_cast<C>(p.momentum), weight = static_cast<C>(1 - p.momentum);
    const T* buffer = s.momentum_buffer.as<T>();
    visit_gradient<T>(s.gradient, [&](const auto* gradient) {
      for (std::int64_t k = begin; k < end; ++k) {
        const auto g = static_cast<C>(gradient[k]);
        const C b = lerp(static_cast<C>(buffer[k]), g, weight);
        f(k, p.is_nesterov ? lerp(g, b, momentum) : b);
      }
    });
  });
}

}  // namespace

Plan plan(const MuonDirectionArgs& args) {
  auto numbers = static_cast<std::int64_t>(args.slots.size());  // factors, and sums of pieces
  for (const MuonSlot& s : args.slots) numbers += pieces_of(s);
  return {.workspace = static_cast<std::size_t>(numbers) * sizeof(double)};
}

void muon_direction(const MuonDirectionArgs& args, const Plan&, Workspace ws) {
  auto *factors = static_cast<double*>(ws.data), *sums = factors + args.slots.size();
  const auto& params = args.params.step_params;
  for_each_piece(args.slots, [&](std::size_t i, std::int64_t at, std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for_each_element(args.slots[i], params[i], begin, end,
                     [&](std::int64_t, auto u) { sum += static_cast<double>(u) * static_cast<double>(u); });
    sums[at] = sum;
  });
  for (std::size_t i = 0; i < args.slots.size(); ++i) {
    const double norm = std::sqrt(std::accumulate(sums, sums + pieces_of(args.slots[i]), 0.0));
    factors[i] = 1 / (norm > args.eps[i] || std::isnan(norm) ? norm : args.eps[i]);
    sums += pieces_of(args.slots[i]);
  }
  for_each_piece(args.slots, [&](std::size_t i, std::int64_t, std::int64_t begin, std::int64_t end) {
    visit_floating(args.directions[i].dtype, [&](auto zero) {
      auto* direction = args.directions[i].as<decltype(zero)>();
      for_each_element(args.slots[i], params[i], begin, end, [&](std::int64_t k, auto u) {
        direction[k] = static_cast<decltype(zero)>(
            static_cast<compute_t<decltype(zero)>>(u * static_cast<decltype(u)>(factors[i])));
      });
    });
  });
}

void muon_polynomial(const ConstView& gram, const View& square, const std::array<double, 3>& c) {
  const std::int64_t n = square.shape[2];
  visit_floating(square.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* a = gram.as<T>();
    T* y = square.as<T>();
    const auto diagonal = static_cast<C>(c[0]), linear = static_cast<C>(c[1]), quadratic = static_cast<C>(c[2]);
    parallel_for(square.numel() / std::max<std::int64_t>(n, 1),
                 std::max<std::int64_t>(grain / std::max<std::int64_t>(n, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row)
                     for (std::int64_t k = row * n; k < (row + 1) * n; ++k) {
                       const C v = linear * static_cast<C>(a[k]) + quadratic * static_cast<C>(y[k]);
                       y[k] = static_cast<T>(k - row * n == row % n ? v + diagonal : v);
                     }
                 });
  });
}

}  // namespace bytetape::cpu
