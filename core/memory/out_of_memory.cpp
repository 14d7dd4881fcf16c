#include "bytetape/core/memory/out_of_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "bytetape/core/memory/format.h"

namespace bytetape {
namespace memory {
namespace {

std::size_t total(const RoleBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

void write_table(std::string& out, const Shortage& s) {
  auto row = [&](const char* name, std::size_t bytes) {
    if (bytes) fmt::format_to(std::back_inserter(out), "  {:<20} {:>12}\n", name, format_bytes(bytes));
  };
  for (std::size_t r = 0; r < role_count; ++r) row(to_string(static_cast<Role>(r)), s.statistics.by_role[r].current);
  row("cached, free", s.statistics.reserved.current - s.statistics.allocated.current);
  row("not reserved", s.unreserved);
  fmt::format_to(std::back_inserter(out), "  {:<20} {:>12}\n", "= limit",
                 format_bytes(std::max(s.limit, s.statistics.reserved.current)));
}

void write_holders(std::string& out, const Shortage& s) {
  std::vector<std::pair<std::size_t, NameId>> holders;
  for (NameId id = 0; id < s.by_module.size(); ++id)
    if (const std::size_t n = total(s.by_module[id])) holders.emplace_back(n, id);
  std::sort(holders.begin(), holders.end(), std::greater<>());
  if (holders.size() > 5) holders.resize(5);
  if (!holders.empty()) out += "largest holders:\n";
  for (auto [bytes, id] : holders)
    fmt::format_to(std::back_inserter(out), "  {:<20} {:>12}\n", id ? name_of(id) : "(outside modules)",
                   format_bytes(bytes));
}

std::string explain(const Shortage& s) {
  const std::size_t cached = s.statistics.reserved.current - s.statistics.allocated.current;
  const std::size_t available = cached + s.unreserved;
  const std::string at = detail::where();
  std::string out = fmt::format("out of memory on {}: {} asked for{}{}\n", to_string(s.device),
                                format_bytes(s.requested), at.empty() ? "" : " by ", at);
  write_table(out, s);
  write_holders(out, s);
  if (available < s.requested)
    out += fmt::format("a true shortage: {} more than is free ({})", format_bytes(s.requested - available),
                       format_bytes(available));
  else
    out += fmt::format("fragmentation: {} are free, but the largest piece is {}", format_bytes(available),
                       format_bytes(std::max(s.largest_free, s.unreserved)));
  out += fmt::format("; a request of up to {} would fit", format_bytes(std::max(s.largest_free, s.unreserved)));
  return out;
}

}  // namespace
}  // namespace memory

OutOfMemory::OutOfMemory(memory::Shortage shortage)
    : Error(memory::explain(shortage)), shortage_(std::move(shortage)) {}

}  // namespace bytetape
