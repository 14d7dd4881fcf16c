#include "bytetape/core/memory/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/text/append.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t name_width = 23, longest_name = 40;  // for a page of 80 columns
constexpr int bar_width = 24, most_width = 8;

std::string step_name(std::uint32_t step) { return step ? fmt::format("step {}", step) : "outside any step"; }

// ---- the peak

void write_header(std::string& out, const Snapshot& s) {
  const Statistics& books = s.statistics;
  append(out, "memory on {}: peak {} allocated, {} reserved", s.name, format_bytes(books.allocated.peak),
         format_bytes(books.reserved.peak));
  if (s.limit != std::numeric_limits<std::size_t>::max()) append(out, ", limit {}", format_bytes(s.limit));
  out += '\n';
}

constexpr std::size_t share_width = 20;  // columns of a share, without the name

void write_share(std::string& out, const std::string& name, std::size_t width, std::size_t bytes, std::size_t whole) {
  append(out, "  {:<{}} {:>9} {:>5}  ", name, width, format_bytes(bytes), format_share(bytes, whole));
}

void write_roles(std::string& out, const Snapshot& s) {
  const Statistics& books = s.statistics;
  const std::size_t peak = total(books.at_peak);
  append(out, "\nat the peak ({}, {})\n", step_name(books.peak_step), to_string(books.peak_phase));
  for (const Holder& h : holders_of({books.at_peak})) {
    write_share(out, to_string(h.role), name_width, h.bytes, peak);
    out += format_bar(h.bytes, peak, bar_width) + "\n";
  }
}

/// "….block3.bn1": shortens a path at its start, because its end is more specific.
std::string shortened(const std::string& path) {
  std::size_t start = 0;
  while (path.size() - start > longest_name) {
    const std::size_t dot = path.find('.', start + 1);
    if (dot == std::string::npos) break;
    start = dot;
  }
  return start == 0 ? path : "…" + path.substr(start);
}

/// The number of characters of a UTF-8 text.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

struct Line {
  std::string name;
  RoleBytes bytes;
  std::size_t most;  // at any time
};

/// One line for each name, the largest first.
std::vector<Line> by_size(const std::vector<RoleBytes>& table, const std::vector<std::size_t>& most) {
  std::vector<std::pair<std::size_t, Line>> lines;
  for (NameId id = 0; id < table.size(); ++id)
    if (const std::size_t held = total(table[id]))
      lines.push_back({held, {name_of(id), table[id], id < most.size() ? most[id] : held}});
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.name < b.second.name;
  });
  std::vector<Line> sorted;
  for (auto& [held, line] : lines) sorted.push_back(std::move(line));
  return sorted;
}

/// "saved for backward 22.0 MiB", "other 1.25 MiB". Roles with less than a twentieth of the bytes count as "other".
std::vector<std::string> list_roles(const RoleBytes& bytes) {
  std::vector<std::string> roles;
  std::size_t rest = 0;
  for (const Holder& h : holders_of({bytes}))
    if (h.bytes >= total(bytes) / 20)
      roles.push_back(fmt::format("{} {}", to_string(h.role), format_bytes(h.bytes)));
    else
      rest += h.bytes;
  if (rest) roles.push_back(fmt::format("other {}", format_bytes(rest)));
  return roles;
}

void write_holders(std::string& out, const Snapshot& s, std::size_t shown) {
  std::vector<Line> lines = by_size(s.by_module_at_peak, s.most_by_module);
  const bool named = std::any_of(lines.begin(), lines.end(), [](const Line& l) { return !l.name.empty(); });
  if (!named) lines = by_size(s.by_op_at_peak, s.most_by_op);
  if (lines.empty()) return;
  for (Line& l : lines) l.name = l.name.empty() ? named ? "(outside modules)" : "(outside ops)" : shortened(l.name);
  const std::size_t count = std::min(shown, lines.size()), whole = s.statistics.allocated.peak;
  std::size_t width = name_width;
  for (std::size_t i = 0; i < count; ++i) width = std::max(width, width_of(lines[i].name));
  append(out, "\n{:<{}}{:>{}}\n", named ? "held then, by module" : "held then, by op", share_width + width, "own peak",
         most_width);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t held = total(lines[i].bytes);
    write_share(out, lines[i].name, width, held, whole);
    const std::vector<std::string> roles = list_roles(lines[i].bytes);
    append(out, "{:>{}}  {}\n", format_bytes(lines[i].most), most_width, roles.front());
    for (std::size_t r = 1; r < roles.size(); ++r)
      append(out, "{:>{}}{}\n", "", share_width + width + most_width + 2, roles[r]);
  }
  std::size_t rest = 0;
  for (std::size_t i = count; i < lines.size(); ++i) rest += total(lines[i].bytes);
  if (rest == 0) return;
  write_share(out, fmt::format("{} more", lines.size() - count), width, rest, whole);
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

// ---- steps

std::string or_dash(std::size_t bytes) { return bytes ? format_bytes(bytes) : "·"; }

void write_summary(std::string& out, const std::string& name, const StepSummary& s) {
  std::size_t rose = 0, fell = 0;
  for (const auto& f : s.phases) rose += f.rose, fell += f.fell;
  append(out, "  {:<{}} {:>10} {:>10} {:>10} {:>10} {:>10}\n", name, name_width, or_dash(s.before), or_dash(rose),
         or_dash(fell), or_dash(s.peak), or_dash(s.after));
  if (s.step == 0) return;
  for (std::size_t p = 0; p < phase_count; ++p)
    if (const auto& f = s.phases[p]; f.rose || f.fell)
      append(out, "    {:<{}} {:>10} {:>10} {:>10} {:>10}\n", to_string(static_cast<Phase>(p)), name_width - 2, "",
             or_dash(f.rose), or_dash(f.fell), or_dash(f.peak));
}

bool alike(const StepSummary& a, const StepSummary& b) {
  return a.phases == b.phases && a.before == b.before && a.after == b.after && a.peak == b.peak;
}

using Steps = std::vector<const StepSummary*>;

/// The step that most of the steps after the first are like.
struct Typical {
  const StepSummary* step = nullptr;
  std::size_t count = 0;
};
Typical find_typical(const Steps& steps) {
  constexpr std::size_t most_kinds = 64;  // bounds the comparisons if all steps differ and none is typical
  std::vector<Typical> kinds;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const auto it =
        std::find_if(kinds.begin(), kinds.end(), [&](const Typical& k) { return alike(*k.step, *steps[i]); });
    if (it != kinds.end())
      ++it->count;
    else if (kinds.size() < most_kinds)
      kinds.push_back({steps[i], 1});
  }
  const auto most = std::max_element(kinds.begin(), kinds.end(), [](auto& a, auto& b) { return a.count < b.count; });
  return most == kinds.end() ? Typical{} : *most;
}

/// The first step, the typical one, the one with the peak and the last. Steps like the typical one are left out.
/// `typical` is null only if there is just one step.
Steps worth_showing(const Steps& steps, const StepSummary* typical, std::uint32_t peak_step) {
  const auto stands_for = [&](const StepSummary* s) { return typical != s && alike(*typical, *s); };
  Steps shown{steps.front()};
  for (const StepSummary* s : steps) {
    const bool wanted = s == typical || s->step == peak_step || s == steps.back();
    if (wanted && s != steps.front() && !stands_for(s)) shown.push_back(s);
  }
  return shown;
}

/// The sum of the changes outside any step, between the first step and the last one.
StepSummary between(const std::vector<StepSummary>& all, std::size_t first, std::size_t last) {
  StepSummary sum;
  sum.before = all[first].after;
  sum.after = all[last].before;
  for (std::size_t i = first; i < last; ++i) {
    if (all[i].step) continue;
    sum.peak = std::max(sum.peak, all[i].peak);
    for (std::size_t p = 0; p < phase_count; ++p) {
      sum.phases[p].rose += all[i].phases[p].rose;
      sum.phases[p].fell += all[i].phases[p].fell;
    }
  }
  return sum;
}

void write_steps(std::string& out, const Snapshot& s) {
  if (s.steps.empty()) return;
  append(out, "\n{:<{}} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "steps and phases", name_width + 2, "before",
         "allocated", "freed", "peak", "after");
  Steps steps;
  for (const StepSummary& step : s.steps)
    if (step.step) steps.push_back(&step);
  if (steps.empty()) {
    write_summary(out, "outside any step", s.steps.front());
    return;
  }
  const auto first = static_cast<std::size_t>(steps.front() - s.steps.data());
  const auto last = static_cast<std::size_t>(steps.back() - s.steps.data());
  if (first > 0) write_summary(out, "before " + step_name(steps.front()->step), s.steps.front());
  const Typical typical = find_typical(steps);
  for (const StepSummary* step : worth_showing(steps, typical.step, s.statistics.peak_step)) {
    write_summary(out, step_name(step->step), *step);
    if (step == typical.step && typical.count > 1)
      append(out, "    {} {}steps after the first are like this one\n",
             typical.count == steps.size() - 1 ? fmt::format("all {}", typical.count)
                                               : fmt::format("{} of the {}", typical.count, steps.size() - 1),
             s.dropped_steps ? "logged " : "");
  }
  if (const StepSummary gaps = between(s.steps, first, last); !gaps.is_quiet())
    write_summary(out, "between steps, total", gaps);
  if (last + 1 < s.steps.size()) write_summary(out, "after " + step_name(steps.back()->step), s.steps.back());
}

void write_outside(std::string& out, Device device, const Outside& outside) {
  append(out, "outside the ledger: {} ", format_bytes(outside.bytes));
  if (device.type == DeviceType::cpu)
    append(out, "resident (code, stacks, logs, libraries)\n");
  else if (outside.others)
    append(out, "used on the device: {} by CUDA's context and libraries, {} by other processes\n",
           format_bytes(outside.bytes - *outside.others), format_bytes(*outside.others));
  else
    append(out, "used on the device (CUDA's context, libraries, other processes)\n");
}

void write_footer(std::string& out, const Snapshot& s) {
  const Statistics& books = s.statistics;
  const std::size_t cached = books.reserved.current - books.allocated.current;
  append(out, "\nheld now: {}, of which rounding {}; cached: {}\n", format_bytes(books.allocated.current),
         format_bytes(books.allocated.current - books.requested.current), format_bytes(cached));
  append(out, "{} allocations took {} segment{} from the system\n", format_exact(books.allocations),
         format_exact(books.upstream_calls), books.upstream_calls == 1 ? "" : "s");
  if (books.to_device.count || books.to_host.count || books.waits)
    append(out, "{} transfers to the device ({}), {} back ({}); the host waited {} times\n",
           format_exact(books.to_device.count), format_bytes(books.to_device.bytes), format_exact(books.to_host.count),
           format_bytes(books.to_host.bytes), format_exact(books.waits));
  if (s.external.peak)
    append(out, "external: {} of other libraries' memory in tensors, at most {}\n", format_bytes(s.external.bytes),
           format_bytes(s.external.peak));
  if (s.outside) write_outside(out, s.device, *s.outside);
  if (s.dropped || s.dropped_steps)
    append(out, "{} events{} are in these totals only, because the log in memory is full; a recording has all events\n",
           format_exact(s.dropped), s.dropped_steps ? fmt::format(" and {} steps", format_exact(s.dropped_steps)) : "");
}

}  // namespace

std::string summarize(const Snapshot& s, std::size_t modules) {
  std::string out;
  write_header(out, s);
  write_roles(out, s);
  write_holders(out, s, modules);
  write_steps(out, s);
  write_footer(out, s);
  return out;
}

}  // namespace bytetape::memory
