#include "bytetape/core/memory/out_of_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/policy.h"

namespace bytetape {
namespace memory {

std::size_t Shortage::needed() const {
  const std::size_t rounded = (requested + rounding - 1) / rounding * rounding;
  return requested == 0 ? rounding : std::max(requested, rounded);  // an absurd size wraps
}

std::size_t Shortage::fits() const {
  return refused() ? largest_free : std::max(largest_free, unreserved / rounding * rounding);
}

std::size_t Shortage::missing() const {
  return needed() - (refused() || fragmented() ? fits() : cached() + unreserved);
}

namespace {

constexpr int name_width = 22;

template <class... Args>
void print(std::string& out, fmt::format_string<Args...> text, Args&&... args) {
  fmt::format_to(std::back_inserter(out), text, std::forward<Args>(args)...);
}

void write_row(std::string& out, const std::string& name, std::size_t bytes, const std::string& note = "") {
  print(out, "  {:<{}} {:>9} {:>21}", name, name_width, format_bytes(bytes), format_exact(bytes));
  if (!note.empty()) print(out, "   {}", note);
  out += '\n';
}

// Every line but the last two adds up to the line below the rule.
void write_table(std::string& out, const Shortage& s) {
  const std::size_t reserved = s.statistics.reserved.current;
  for (std::size_t r = 0; r < role_count; ++r)
    if (const std::size_t held = s.statistics.by_role[r].current)
      write_row(out, to_string(static_cast<Role>(r)), held, format_bar(held, std::max(s.limit, reserved), 20));
  const std::string note =
      s.cached() ? fmt::format("free, in pieces; serves up to {}", format_bytes(s.largest_free)) : "";
  write_row(out, "cached", s.cached(), note);
  write_row(out, "not reserved", s.unreserved);
  print(out, "  {:─<{}}\n", "", name_width + 32);
  if (reserved <= s.limit) {
    write_row(out, "limit", s.limit);
  } else {
    write_row(out, "reserved", reserved);
    write_row(out, "over the limit by", reserved - s.limit, "limit " + format_bytes(s.limit));
  }
  const Statistics& books = s.statistics;
  if (const std::size_t waste = books.allocated.current - books.requested.current)
    print(out, "  rounding takes {} of what the roles hold\n", format_bytes(waste));
}

void write_holders(std::string& out, const Shortage& s) {
  constexpr std::size_t shown = 6;
  const std::vector<Holder> holders = holders_of(s.by_module);
  if (holders.empty()) return;
  out += "\nlargest holders\n";
  std::size_t width = 0, rest = 0;
  for (std::size_t i = 0; i < std::min(shown, holders.size()); ++i)
    width = std::max(width, display_name(holders[i].name).size());
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (i >= shown)
      rest += holders[i].bytes;
    else
      print(out, "  {:>9}  {:<{}}  {}\n", format_bytes(holders[i].bytes), display_name(holders[i].name), width,
            to_string(holders[i].role));
  }
  if (rest) print(out, "  {:>9}  in {} more\n", format_bytes(rest), holders.size() - shown);
}

std::string verdict(const Shortage& s) {
  const std::size_t free = s.cached() + s.unreserved;
  if (s.refused())
    return fmt::format("refused by the system: the limit leaves {}, but the system has no more to give",
                       format_bytes(s.unreserved));
  if (s.fragmented() && s.elsewhere > 0 && s.needed() > free - s.unusable - s.elsewhere)
    return fmt::format("fragmentation: {} are free in all, but {} of it serve other streams or captured steps",
                       format_bytes(free), format_bytes(s.elsewhere));
  if (s.fragmented() && s.needed() > free - s.unusable)
    return fmt::format("fragmentation: {} are free in all, but {} of it are for requests up to {}", format_bytes(free),
                       format_bytes(s.unusable), format_bytes(small_limit));
  if (s.fragmented())
    return fmt::format("fragmentation: {} are free in all, but the largest piece is {} short", format_bytes(free),
                       format_bytes(s.missing()));
  return fmt::format("a true shortage: {} are free, {} are missing", format_bytes(free), format_bytes(s.missing()));
}

std::string explain(const Shortage& s) {
  const std::string who = detail::where();
  std::string out;
  print(out, "out of memory on {}: {} ({} bytes) asked for", s.name, format_bytes(s.requested),
        format_exact(s.requested));
  if (!who.empty()) print(out, " by {}", who);
  out += "\n\n";
  write_table(out, s);
  write_holders(out, s);
  print(out, "\n{}\n", verdict(s));
  print(out, "what would fit now: {} ({} bytes) in one piece", format_bytes(s.fits()), format_exact(s.fits()));
  return out;
}

}  // namespace
}  // namespace memory

OutOfMemory::OutOfMemory(memory::Shortage shortage)
    : Error(memory::explain(shortage)), shortage_(std::make_shared<const memory::Shortage>(std::move(shortage))) {}

}  // namespace bytetape
