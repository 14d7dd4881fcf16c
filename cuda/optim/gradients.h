#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// The elements of a gradient: dense memory and their number.
struct GradientSlot {
  void* data;
  std::int64_t size;
};

/// Gradients of one dtype, passed to a kernel as an argument. Gradients are cut into chunks, which a launch's blocks
/// share evenly.
template <int most, class Slot = GradientSlot>
struct GradientTable {
  DType dtype;
  int count = 0;
  std::int64_t chunk;         // elements
  std::uint32_t chunks = 0;   // of all gradients
  std::uint32_t first[most];  // first chunk of each gradient
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
  /// The number of blocks; each makes one partial sum of squares. It depends on sizes alone, because the order of
  /// summation depends on it.
  unsigned blocks() const { return std::min(chunks, 1024u); }
};
template <class Slot = GradientSlot>
using LargestGradientTable = GradientTable<1024, Slot>;

/// Calls f(table) for tables that together hold slot(i) of every gradient i that has elements. Usually there is one
/// table.
template <class Slot, class V, class SlotOf, class F>
void for_each_table_of(std::span<const V> gradients, SlotOf&& slot, F&& f) {
  std::int64_t total = 0;
  for (const V& g : gradients) total += g.numel();
  const std::int64_t chunk = total < std::int64_t{1} << 22 ? 1024 : 4096;  // small, so that few elements fill blocks
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
/// As for_each_table_of(), with the gradients themselves as slots.
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
