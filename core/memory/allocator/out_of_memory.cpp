#include "bytetape/core/memory/allocator/out_of_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "bytetape/core/memory/allocator/policy.h"
#include "bytetape/core/memory/allocator/verdict.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/text/append.h"

namespace bytetape {
namespace memory {

std::size_t Shortage::needed() const { return std::max(requested, rounded(requested)); }

std::size_t Shortage::available() const {
  if (!outside) return unreserved;
  const std::size_t used = statistics.reserved.current + unledgered();
  return std::min(unreserved, capacity - std::min(capacity, used));
}

std::size_t Shortage::fits() const {
  return refused() ? largest_free : std::max(largest_free, available() / rounding * rounding);
}

std::size_t Shortage::missing() const { return needed() - (refused() || fragmented() ? fits() : free()); }

namespace {

constexpr int label_width = 22;

void write_row(std::string& out, const std::string& name, std::size_t bytes, const std::string& note = "") {
  append(out, "  {:<{}} {:>9} {:>21}", name, label_width, format_bytes(bytes), format_exact(bytes));
  if (!note.empty()) append(out, "   {}", note);
  out += '\n';
}

/// The line below the rule, which is the sum of the rows above: the limit, or a GPU's whole memory.
struct Whole {
  const char* name;
  std::size_t bytes;
};
Whole whole_of(const Shortage& s) {
  const std::size_t reserved = s.statistics.reserved.current;
  if (s.outside) return {"device", std::max(s.capacity, reserved + s.unledgered() + s.available())};
  if (reserved > s.limit) return {"reserved", reserved};
  return {"limit", s.limit};
}

void write_rows(std::string& out, const Shortage& s, std::size_t whole) {
  for (std::size_t r = 0; r < role_count; ++r)
    if (const std::size_t held = s.statistics.by_role[r].current)
      write_row(out, to_string(static_cast<Role>(r)), held, format_bar(held, whole, 20));
  write_row(out, "cached", s.cached(),
            s.cached() ? fmt::format("free, in pieces; serves up to {}", format_bytes(s.largest_free)) : "");
  write_row(out, "not reserved", s.available());
  if (!s.outside) return;
  if (s.external.bytes) write_row(out, "external", s.external.bytes, "other libraries' memory that tensors use");
  const std::size_t others = s.outside->others.value_or(0);
  write_row(out, "outside the ledger", s.outside->bytes - others,
            s.outside->others ? "CUDA's context and libraries" : "CUDA's context, libraries, other processes");
  if (s.outside->others) write_row(out, "other processes", others);
  const std::size_t all = s.statistics.reserved.current + s.available() + s.unledgered();
  if (all < whole) write_row(out, "beyond the limit", whole - all);
}

void write_table(std::string& out, const Shortage& s) {
  const Whole whole = whole_of(s);
  write_rows(out, s, whole.bytes);
  append(out, "  {:─<{}}\n", "", label_width + 32);
  write_row(out, whole.name, whole.bytes);
  const std::size_t reserved = s.statistics.reserved.current;
  if (reserved > s.limit)
    write_row(out, "over the limit by", reserved - s.limit, "limit " + format_bytes(s.limit));
  else if (s.limit < whole.bytes)
    write_row(out, "limit", s.limit);
  const Statistics& books = s.statistics;
  if (const std::size_t waste = books.allocated.current - books.requested.current)
    append(out, "  the roles include {} of rounding\n", format_bytes(waste));
  if (!s.outside && s.external.bytes)
    append(out, "  not in the table: {} external, other libraries' memory that tensors use\n",
           format_bytes(s.external.bytes));
}

std::string text_of(const Holding& h) {
  std::string text = h.op ? name_of(h.op) : "";
  if (h.blocks > 1) text += fmt::format("{}{} blocks", text.empty() ? "" : ", ", h.blocks);
  return text;
}

void write_holders(std::string& out, const Shortage& s) {
  constexpr std::size_t most = 10;
  if (s.holders.empty()) return;
  out += "\nlargest holders\n";
  const std::size_t shown = std::min(most, s.holders.size());
  std::size_t module = 0, role = 0, rest = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    module = std::max(module, display_name(s.holders[i].module).size());
    role = std::max(role, std::string(to_string(s.holders[i].role)).size());
  }
  for (std::size_t i = 0; i < s.holders.size(); ++i) {
    const Holding& h = s.holders[i];
    const auto bytes = static_cast<std::size_t>(h.bytes);
    if (i >= shown) {
      rest += bytes;
      continue;
    }
    append(out, "  {:>9}  {:<{}}  {:<{}}  {}", format_bytes(bytes), display_name(h.module), module, to_string(h.role),
           role, text_of(h));
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  if (rest) append(out, "  {:>9}  in {} more\n", format_bytes(rest), s.holders.size() - shown);
}

/// The reason why the free bytes do not serve the request.
std::string obstacle(const Shortage& s) {
  const std::size_t free = s.free();
  if (s.elsewhere > 0 && s.needed() > free - s.unusable - s.elsewhere)
    return fmt::format("{} of it belong to other streams or captured steps", format_bytes(s.elsewhere));
  if (s.needed() > free - s.unusable)
    return fmt::format("{} of it serve only requests up to {}", format_bytes(s.unusable), format_bytes(small_limit));
  return fmt::format("the largest piece is {} too small for this request", format_bytes(s.missing()));
}

}  // namespace

std::string verdict(const Shortage& s) {
  if (s.refused())
    return fmt::format("refused by the system: the limit leaves {}, but the system has no more memory",
                       format_bytes(s.available()));
  if (!s.fragmented())
    return fmt::format("a true shortage: {} are free, {} are missing for this request", format_bytes(s.free()),
                       format_bytes(s.missing()));
  const bool would_fit = s.needed() <= s.max_fit_if_compacted;
  return fmt::format(
      "{}: {} are free in total, but {}\n{}if all blocks were placed anew, {}{} would be free in one piece",
      would_fit ? "fragmentation" : "a shortage", format_bytes(s.free()), obstacle(s), would_fit ? "" : "even ",
      would_fit ? "" : "only ", format_bytes(s.max_fit_if_compacted));
}

namespace {

/// A hint about later requests. They are not known here, but the earlier peak is.
std::string outlook(const Shortage& s) {
  const auto& [now, peak] = s.statistics.allocated;
  if (peak > now)
    return fmt::format("later requests may need more: the peak so far was {} allocated, {} more than now",
                       format_bytes(peak), format_bytes(peak - now));
  return "later requests may need more: memory::predict() shows the memory of a whole step";
}

std::string when(const Shortage& s) {
  if (s.step) return fmt::format(" in step {} ({})", s.step, to_string(s.phase));
  return s.phase == Phase::setup ? "" : fmt::format(" ({})", to_string(s.phase));
}

std::string explain(const Shortage& s) {
  const std::string who = detail::where();
  std::string out;
  append(out, "out of memory on {}: {} ({} bytes) requested", s.name, format_bytes(s.requested),
         format_exact(s.requested));
  if (!who.empty()) append(out, " by {}", who);
  out += when(s) + "\n\n";
  write_table(out, s);
  write_holders(out, s);
  append(out, "\n{}\n{}\n", verdict(s), outlook(s));
  append(out, "the largest request that fits now: {} ({} bytes)", format_bytes(s.fits()), format_exact(s.fits()));
  if (const std::string path = recording_path(); !path.empty()) append(out, "\nall events are recorded in {}", path);
  return out;
}

}  // namespace
}  // namespace memory

OutOfMemory::OutOfMemory(memory::Shortage shortage)
    : Error(memory::explain(shortage)), shortage_(std::make_shared<const memory::Shortage>(std::move(shortage))) {}

}  // namespace bytetape
