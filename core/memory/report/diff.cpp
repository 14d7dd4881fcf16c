#include "bytetape/core/memory/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/holders.h"

namespace bytetape::memory {
namespace {

/// Sums by module, op and role.
class Sums {
 public:
  void add(const Holding& h, std::int64_t sign = 1) {
    Holding& sum = rows_.try_emplace({h.module, h.op, h.role}, Holding{h.module, h.op, h.role}).first->second;
    sum.bytes += sign * h.bytes;
    sum.blocks += sign * h.blocks;
  }
  /// The sums that are not 0, sorted by names, because ids depend on what the process did before.
  std::vector<Holding> rows() const {
    std::vector<Holding> rows;
    for (const auto& [key, sum] : rows_)
      if (sum.bytes != 0 || sum.blocks != 0) rows.push_back(sum);
    std::sort(rows.begin(), rows.end(), [](const Holding& a, const Holding& b) {
      if (a.bytes != b.bytes) return a.bytes > b.bytes;
      return std::tie(name_of(a.module), name_of(a.op), a.role) < std::tie(name_of(b.module), name_of(b.op), b.role);
    });
    return rows;
  }

 private:
  std::map<std::tuple<NameId, NameId, Role>, Holding> rows_;
};

std::string signed_bytes(std::int64_t bytes) {
  const std::size_t size = static_cast<std::size_t>(bytes < 0 ? -bytes : bytes);
  return (bytes < 0 ? "-" : "+") + format_bytes(size);
}

}  // namespace

std::vector<Holding> holdings_of(const std::vector<Block>& blocks) {
  Sums sums;
  for (const Block& b : blocks) sums.add({b.module, b.op, b.role, static_cast<std::int64_t>(b.size), 1});
  return sums.rows();
}

Holdings mark(const Allocator& a) {
  Holdings now{a.device(), a.name(), 0, holdings_of(a.blocks())};
  for (const Holding& h : now.rows) now.bytes += h.bytes;
  return now;
}

Holdings mark(Device device) { return mark(allocator(device)); }

Difference diff(const Holdings& before, const Holdings& after) {
  check<ValueError>(before.name == after.name, "diff: expected marks of the same memory, got ", before.name, " and ",
                    after.name);
  Sums sums;
  for (const Holding& h : after.rows) sums.add(h);
  for (const Holding& h : before.rows) sums.add(h, -1);
  return {after.device, after.name, before.bytes, after.bytes, sums.rows()};
}

std::ostream& operator<<(std::ostream& out, const Difference& d) {
  out << fmt::format("memory on {}: {}, from {} to {}\n", d.name, signed_bytes(d.bytes()),
                     format_bytes(static_cast<std::size_t>(d.before)), format_bytes(static_cast<std::size_t>(d.after)));
  if (d.rows.empty()) return out;
  std::size_t module = 6, role = 4;
  for (const Holding& h : d.rows) {
    module = std::max(module, display_name(h.module).size());
    role = std::max(role, std::string(to_string(h.role)).size());
  }
  out << fmt::format("  {:>10} {:>8}  {:<{}}  {:<{}}  {}\n", "bytes", "blocks", "role", role, "module", module, "op");
  for (const Holding& h : d.rows)
    out << fmt::format("  {:>10} {:>+8}  {:<{}}  {:<{}}  {}\n", signed_bytes(h.bytes), h.blocks, to_string(h.role),
                       role, display_name(h.module), module, h.op ? name_of(h.op) : "(outside ops)");
  return out;
}

}  // namespace bytetape::memory
