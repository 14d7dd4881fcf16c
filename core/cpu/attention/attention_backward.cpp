// Gradients of attention. A thread takes whole units (attention_unit.h). The threads share the tiles of those units
// that are left over.
#include "bytetape/core/cpu/attention/attention_unit.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

/// How threads share the units, and the workspace.
struct Split {
  std::int64_t whole, shared;   // units that one thread takes, and those that all threads share
  std::int64_t threads, lanes;  // threads that take whole units, and tiles
  std::size_t sum_bytes, scratch_bytes;

  template <class C>
  static Split of(const AttentionBackwardArgs& a, const TileOrder& order, C) {
    Split s{};
    const std::int64_t units = order.units(), all = num_threads();
    s.shared = order.width() > 1 ? units % all : 0;
    s.whole = units - s.shared;
    s.threads = std::min(all, s.whole);
    s.lanes = std::min(all, s.shared * order.width());
    s.sum_bytes = HeadGroup<C>(a, order, 0, nullptr).bytes();
    s.scratch_bytes = TileScratch<C>(order.size, nullptr).bytes;
    return s;
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(std::max(threads, shared)) * sum_bytes +
           static_cast<std::size_t>(std::max(threads, lanes)) * scratch_bytes;
  }
  void* sums(Workspace ws, std::int64_t number) const {
    return static_cast<char*>(ws.data) + static_cast<std::size_t>(number) * sum_bytes;
  }
  void* scratch(Workspace ws, std::int64_t number) const {
    return static_cast<char*>(sums(ws, std::max(threads, shared))) + static_cast<std::size_t>(number) * scratch_bytes;
  }
};

template <class C>
void take_whole_units(const AttentionBackwardArgs& a, const TileOrder& order, const Split& split, Workspace ws) {
  parallel_for(split.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread) {
      const TileScratch<C> scratch(order.size, split.scratch(ws, thread));
      const std::int64_t last = split.whole * (thread + 1) / split.threads;
      for (std::int64_t unit = split.whole * thread / split.threads; unit < last; ++unit) {
        const HeadGroup<C> heads(a, order, unit, split.sums(ws, thread));
        heads.clear_rest();
        heads.take_all_tiles(scratch);
      }
    }
  });
}

/// Takes the tiles of a round. Lanes take turns.
template <class C>
void take_round(const AttentionBackwardArgs& a, const TileOrder& order, const Split& split, Workspace ws,
                std::int64_t round) {
  parallel_for(split.lanes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t lane = begin; lane < end; ++lane) {
      const TileScratch<C> scratch(order.size, split.scratch(ws, lane));
      std::int64_t turn = 0;
      for (std::int64_t unit = 0; unit < split.shared; ++unit)
        for (std::int64_t j = 0; j < order.key_blocks; ++j) {
          const std::int64_t s = round - order.first_round(j);
          if (s < 0 || s >= order.tiles(j) || turn++ % split.lanes != lane) continue;
          HeadGroup<C>(a, order, split.whole + unit, split.sums(ws, unit)).take_tile(j, s, scratch);
        }
    }
  });
}

Plan plan(const AttentionBackwardArgs& a) {
  return visit_floating(a.in.q.dtype, [&](auto zero) -> Plan {
    return {Split::of(a, TileOrder(a.in), compute_t<decltype(zero)>{}).bytes()};
  });
}

void launch(const AttentionBackwardArgs& a, const Plan&, Workspace ws) {
  const TileOrder order(a.in);
  visit_floating(a.in.q.dtype, [&](auto zero) {
    using C = compute_t<decltype(zero)>;
    const Split split = Split::of(a, order, C{});
    take_whole_units<C>(a, order, split, ws);
    for (std::int64_t unit = 0; unit < split.shared; ++unit)
      HeadGroup<C>(a, order, split.whole + unit, split.sums(ws, unit)).clear_rest();
    if (split.shared > 0)
      for (std::int64_t round = 0; round < order.rounds(); ++round) take_round<C>(a, order, split, ws, round);
  });
}

}  // namespace

const Planned<AttentionBackwardArgs> attention_backward{plan, launch};

}  // namespace bytetape::cpu
