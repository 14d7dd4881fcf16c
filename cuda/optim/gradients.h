#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// Where a gradient's elements are.
struct GradientSlot {
  void* data;
  std::int64_t size;
};

/// Gradients of one dtype as a launch takes them: in its arguments. Blocks share their chunks evenly.
template <int most, class Slot = GradientSlot>
struct GradientTable {
  DType dtype;
  int count = 0;
  std::int64_t chunk;         // elements
  std::uint32_t chunks = 0;   // of all
  std::uint32_t first[most];  // the first chunk of each
  Slot slots[most];

  GradientTable(DType dtype, std::int64_t chunk) : dtype(dtype), chunk(chunk) {}
  template <int more>
  explicit GradientTable(const GradientTable<more, Slot>& t)
      : dtype(t.dtype), count(t.count), chunk(t.chunk), chunks(t.chunks) {
    std::copy_n(t.first, count, first);
    std::copy_n(t.slots, count, slots);
  }
  bool is_full() const { return count == most; }
  void add(const Slot& slot) {
    first[count] = chunks;
    slots[count++] = slot;
    chunks += static_cast<std::uint32_t>((slot.size + chunk - 1) / chunk);
  }
  /// Each leaves one partial sum of squares. From geometry alone, as in what order they add up depends on it.
  unsigned blocks() const { return std::min(chunks, 1024u); }
};
template <class Slot = GradientSlot>
using LargestGradientTable = GradientTable<1024, Slot>;

/// f(table) for tables that together hold slot(i) of all gradients: as a rule one.
template <class Slot, class V, class SlotOf, class F>
void for_each_table_of(std::span<const V> gradients, SlotOf&& slot, F&& f) {
  std::int64_t total = 0;
  for (const V& g : gradients) total += g.numel();
  const std::int64_t chunk = total < std::int64_t{1} << 22 ? 1024 : 4096;  // few elements are spread over more blocks
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    LargestGradientTable<Slot> table(t, chunk);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].dtype != t || gradients[i].numel() == 0) continue;
      table.add(slot(i));
      if (!table.is_full()) continue;
      f(table);
      table.count = table.chunks = 0;
    }
    if (table.count > 0) f(table);
  }
}
/// The same of gradients alone.
template <class F>
void for_each_table(std::span<const View> gradients, F&& f) {
  for_each_table_of<GradientSlot>(
      gradients,
      [&](std::size_t i) {
        return GradientSlot{gradients[i].data(), gradients[i].numel()};
      },
      f);
}

}  // namespace bytetape::cuda
