#include "bytetape/distributed/sharded/gathered.h"

#include <algorithm>
#include <vector>

#include "bytetape/core/memory/ambient.h"

namespace bytetape::dist {

void Gathered::note_gathered(Row& row) {
  order_.push_back(&row);
  bytes_ += row.bytes();
}

void Gathered::drop(Row& row) {
  row.drop();
  bytes_ -= std::erase(order_, &row) * row.bytes();
}

template <class F>
void Gathered::for_rows_of(const OpCall& call, const F& f) {
  for (const Operand& input : call.inputs) {
    const Tensor& x = input.tensor();
    const auto at = x.defined() ? rows_.find(&x.storage()) : rows_.end();
    if (at != rows_.end()) f(*at->second);
  }
}

void Gathered::begin(const OpCall& call) {
  if (call.caller || call.kind == OpKind::view || memory::ambient.scope.phase == memory::Phase::backward) return;
  std::vector<Row*> used;
  std::size_t needed = 0;
  for_rows_of(call, [&](Row& row) {
    if (std::ranges::find(used, &row) != used.end()) return;
    used.push_back(&row);
    const auto place = std::ranges::find(order_, &row);
    if (place == order_.end())
      needed += row.bytes();
    else
      order_.splice(order_.end(), order_, place);  // the newest
  });
  if (used.empty()) return;
  const auto is_used = [&](Row* row) { return std::ranges::find(used, row) != used.end(); };
  while (bytes_ + needed > most_ && !order_.empty() && !is_used(order_.front())) drop(*order_.front());
}

void Gathered::end(const OpCall& call) noexcept {
  if (call.caller || call.definition.writes.size() == 0) return;
  for_rows_of(call, [](Row& row) { row.keep_written(); });
}

}  // namespace bytetape::dist
