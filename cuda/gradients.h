#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// Gradients of one dtype as a launch takes them: in its arguments. Blocks share their chunks evenly.
template <int most>
struct GradientTable {
  DType dtype;
  int count = 0;
  std::int64_t chunk;         // elements
  std::uint32_t chunks = 0;   // of all
  std::uint32_t first[most];  // the first chunk of each
  struct Slot {
    void* data;
    std::int64_t size;
  } slots[most];

  GradientTable(DType dtype, std::int64_t chunk) : dtype(dtype), chunk(chunk) {}
  template <int more>
  explicit GradientTable(const GradientTable<more>& t)
      : dtype(t.dtype), count(t.count), chunk(t.chunk), chunks(t.chunks) {
    std::copy_n(t.first, count, first);
    for (int i = 0; i < count; ++i) slots[i] = {t.slots[i].data, t.slots[i].size};
  }
  bool is_full() const { return count == most; }
  void add(const View& g) {
    first[count] = chunks;
    slots[count++] = {g.data(), g.numel()};
    chunks += static_cast<std::uint32_t>((g.numel() + chunk - 1) / chunk);
  }
  /// Each leaves one partial sum of squares. From geometry alone, as in what order they add up depends on it.
  unsigned blocks() const { return std::min(chunks, 1024u); }
};
using LargestGradientTable = GradientTable<1024>;

/// f(table) for tables that together hold all gradients: as a rule one.
template <class F>
void for_each_table(std::span<const View> gradients, F&& f) {
  std::int64_t total = 0;
  for (const View& g : gradients) total += g.numel();
  const std::int64_t chunk = total < std::int64_t{1} << 22 ? 1024 : 4096;  // few elements are spread over more blocks
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    LargestGradientTable table(t, chunk);
    for (const View& g : gradients) {
      if (g.dtype != t || g.numel() == 0) continue;
      table.add(g);
      if (!table.is_full()) continue;
      f(table);
      table.count = table.chunks = 0;
    }
    if (table.count > 0) f(table);
  }
}

}  // namespace bytetape::cuda
