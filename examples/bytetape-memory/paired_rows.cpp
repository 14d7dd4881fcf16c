#include "examples/bytetape-memory/paired_rows.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace bytetape::examples {

std::vector<PairedRow> paired_rows(const std::vector<TimeRow>& as, const std::vector<TimeRow>& bs,
                                   const CommonClock& clock) {
  std::map<std::pair<std::string, std::string>, PairedRow> pairs;
  const auto pair_of = [&](const TimeRow& r) -> PairedRow& {
    return pairs.try_emplace({r.name, r.phase}, PairedRow{{r.name, r.phase}, {r.name, r.phase}}).first->second;
  };
  for (const TimeRow& r : as) pair_of(r).a = r;
  for (const TimeRow& r : bs) pair_of(r).b = r;
  std::vector<PairedRow> rows;
  for (auto& [key, row] : pairs) rows.push_back(std::move(row));
  const auto order = [&](const PairedRow& r) {
    const std::uint64_t a = clock.of(r.a), b = clock.of(r.b);
    return std::tuple(a > b ? a - b : b - a, a);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const PairedRow& x, const PairedRow& y) { return order(x) > order(y); });
  return rows;
}

}  // namespace bytetape::examples
