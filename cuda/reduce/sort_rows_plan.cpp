#include <algorithm>
#include <bit>

#include "bytetape/core/sort_key.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/sort.h"
#include "bytetape/cuda/reduce/sort_rows.h"

namespace bytetape::cuda {

SortRows::SortRows(const SortArgs& a) : count(0), size(a.x.shape[a.dim]), kept(a.indices.shape[a.dim]), way(Way::none) {
  if (kept > 0) count = a.indices.numel() / kept;
  key_bits = static_cast<int>(8 * size_of(a.x.dtype));
  row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(count - 1, 0)));
  if (count == 0) return;
  const std::size_t ticket = key_bits <= 32 ? sizeof(PackedTicket) : sizeof(WideTicket);
  if (size <= shared_bytes / static_cast<std::int64_t>(ticket))
    way = Way::in_block;
  else if (kept <= most_selected && size < 0xFFFFFFFF)  // a ticket's index and a count have 32 bits
    way = Way::selected;
  else
    way = Way::radix;
}

// The radix sort needs two buffers of keys and two of places.
static Plan plan(const SortArgs& a) {
  const SortRows rows(a);
  const std::int64_t n = rows.count * rows.size;
  return {.workspace = rows.way == SortRows::Way::radix ? 4 * sort_buffer(n) + sort_scratch(n) : 0,
          .algorithm = static_cast<std::int64_t>(rows.way)};
}

const SortKernels& sort_plans() {
  static const SortKernels all{
      .sort = {plan, nullptr},
      .pick = nullptr,
      .place = nullptr,
  };
  return all;
}

}  // namespace bytetape::cuda
