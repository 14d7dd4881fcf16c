// Sorts rows along a dim. A thread writes a ticket for each element of a row into its part of the workspace, and sorts
// the tickets. Their order is unique, so the number of threads does not change the result.
#include "bytetape/core/kernels/sort.h"

#include <algorithm>
#include <cstring>

#include "bytetape/core/cpu/loop.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/sort_key.h"
#include "bytetape/core/visit_bits.h"

namespace bytetape::cpu {
namespace {

/// The rows of x, and the number of parts of them that run in parallel.
struct Rows {
  std::int64_t size, kept, count, parts;

  explicit Rows(const SortArgs& a)
      : size(a.x.shape[a.dim]), kept(a.indices.shape[a.dim]), count(kept == 0 ? 0 : a.indices.numel() / kept) {
    constexpr std::int64_t least = grain / 16;  // elements that are worth a thread
    const std::int64_t worth = std::max<std::int64_t>(count * size / least, 1);
    parts = std::min({count, worth, std::int64_t{num_threads()}});
  }
  /// Calls f with a ticket of the type for elements of T.
  template <class T, class F>
  auto with_ticket(F&& f) const {
    if (sizeof(T) <= 4 && size < 0xFFFFFFFF) return f(PackedTicket{});
    return f(WideTicket{});
  }
};

Plan plan(const SortArgs& a) {
  const Rows rows(a);
  return visit(a.x.dtype, [&](auto zero) -> Plan {
    return rows.with_ticket<decltype(zero)>([&](auto ticket) -> Plan {
      return {.workspace = static_cast<std::size_t>(rows.parts * rows.size) * sizeof(ticket)};
    });
  });
}

template <class T, class Ticket>
void sort_rows(const SortArgs& a, const Rows& rows, Ticket* scratch) {
  const auto byte_step = [&](const ConstView& v) {
    return v.strides[a.dim] * static_cast<std::int64_t>(size_of(v.dtype));
  };
  ConstView indices = a.indices, x = a.x, values = a.values.defined() ? a.values : a.indices;
  const std::int64_t index_step = byte_step(indices), x_step = byte_step(x), value_step = byte_step(values);
  const auto sort_row = [&](const char* from, char* index, char* value, Ticket* tickets) {
    const auto element = [&](std::int64_t i) { return *reinterpret_cast<const T*>(from + i * x_step); };
    for (std::int64_t i = 0; i < rows.size; ++i) tickets[i] = Ticket::of(sort_key(element(i), a.descending), i);
    if (rows.kept < rows.size) std::nth_element(tickets, tickets + rows.kept, tickets + rows.size);
    std::sort(tickets, tickets + rows.kept);
    for (std::int64_t i = 0; i < rows.kept; ++i) {
      const std::int64_t at = tickets[i].index();
      *reinterpret_cast<std::int64_t*>(index + i * index_step) = at;
      if (a.values.defined()) *reinterpret_cast<T*>(value + i * value_step) = element(at);
    }
  };
  for (ConstView* v : {&indices, &x, &values}) v->shape[a.dim] = 1;
  const auto loop = make_loop<3>({&indices, &x, &values});
  parallel_for(rows.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      walk_rows(loop, rows.count * part / rows.parts, rows.count * (part + 1) / rows.parts,
                [&](std::int64_t n, const auto& p, const auto& step) {
                  for (std::int64_t i = 0; i < n; ++i)
                    sort_row(p[1] + i * step[1], p[0] + i * step[0], p[2] + i * step[2], scratch + part * rows.size);
                });
  });
}

void sort(const SortArgs& a, const Plan&, Workspace ws) {
  const Rows rows(a);
  if (rows.count == 0) return;
  visit(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    rows.with_ticket<T>([&](auto ticket) { sort_rows<T>(a, rows, static_cast<decltype(ticket)*>(ws.data)); });
  });
}

/// Calls move(near, far, bits) for each index: the element of `near` at its place, the one of `far` that it chooses,
/// and an unsigned number of their size.
template <class F>
void for_each_choice(const ConstView& near, const ConstView& index, const ConstView& far, int dim, const F& move) {
  if (index.numel() == 0) return;
  const std::int64_t far_step = far.strides[dim] * static_cast<std::int64_t>(size_of(far.dtype));
  ConstView first = far;
  first.shape = index.shape;
  first.strides[dim] = 0;
  visit_bits(near.dtype, [&](auto bits) {
    for_each_row(make_loop<3>({&near, &index, &first}), [&](std::int64_t n, const auto& p, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = *reinterpret_cast<const std::int64_t*>(p[1] + i * step[1]);
        move(p[0] + i * step[0], p[2] + i * step[2] + at * far_step, bits);
      }
    });
  });
}

void pick(const ConstView& x, const ConstView& index, int dim, const View& y) {
  for_each_choice(y, index, x, dim, [](char* to, const char* from, auto bits) { std::memcpy(to, from, sizeof(bits)); });
}

void place(const ConstView& x, const ConstView& index, int dim, const View& y) {
  for_each_choice(x, index, y, dim, [](const char* from, char* to, auto bits) { std::memcpy(to, from, sizeof(bits)); });
}

}  // namespace

const SortKernels& sort_kernels() {
  static const SortKernels all{
      .sort = {plan, sort},
      .pick = pick,
      .place = place,
  };
  return all;
}

}  // namespace bytetape::cpu
