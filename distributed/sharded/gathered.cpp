#include "bytetape/distributed/sharded/gathered.h"

#include <algorithm>

#include "bytetape/core/memory/ambient.h"

namespace bytetape::dist {

void Gathered::note_gathered(Row& row) {
  order_.push_back(&row);
  bytes_ += row.bytes();
}

void Gathered::drop(Row& row) {
  bytes_ -= std::erase(order_, &row) * row.bytes();
  row.drop();
}

void Gathered::begin(const OpCall& call) {
  if (call.caller || memory::ambient.scope.phase == memory::Phase::backward) return;
  std::size_t needed = 0;
  std::list<Row*> used;
  for (const Operand& input : call.inputs) {
    const auto at = input.tensor().defined() ? rows_.find(&input.tensor().storage()) : rows_.end();
    if (at == rows_.end() || std::ranges::find(used, at->second) != used.end()) continue;
    const auto place = std::ranges::find(order_, at->second);
    if (place == order_.end())
      needed += at->second->bytes();
    else
      used.splice(used.end(), order_, place);
  }
  while (bytes_ + needed > most_ && !order_.empty()) drop(*order_.front());
  order_.splice(order_.end(), used);
}

}  // namespace bytetape::dist
