#include "bytetape/distributed/rank_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <vector>

#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/ledger/role.h"
#include "bytetape/core/memory/report/report_page.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/core/write_file.h"
#include "bytetape/distributed/between_processes.h"

namespace bytetape::dist {
namespace {

using memory::format_bytes;
using memory::Role;
using memory::role_count;

/// A rank's memory, in bytes.
struct RankMemory {
  std::size_t allocated = 0, reserved = 0, step = 0;
  memory::RoleBytes by_role{};  // at the peak of `allocated`
};

std::vector<RankMemory> gather_all(Device device, const Group& group) {
  const memory::Peak peak = memory::at_peak(device);
  const Processes processes = processes_of(group);
  std::vector<RankMemory> all(static_cast<std::size_t>(group.size()));
  const auto collect = [&](std::size_t mine, const auto& place_in) {
    const auto values = gather(static_cast<std::int64_t>(mine), processes);
    for (std::size_t r = 0; r < all.size(); ++r)
      place_in(all[r]) = r < values.size() ? static_cast<std::size_t>(values[r]) : mine;
  };
  collect(peak.allocated, [](RankMemory& m) -> std::size_t& { return m.allocated; });
  collect(memory::stats(device).reserved.peak, [](RankMemory& m) -> std::size_t& { return m.reserved; });
  collect(peak.step, [](RankMemory& m) -> std::size_t& { return m.step; });
  for (std::size_t role = 0; role < peak.by_role.size(); ++role)
    collect(peak.by_role[role], [&](RankMemory& m) -> std::size_t& { return m.by_role[role]; });
  return all;
}

/// Rules beside those of the page of one rank, whose colours it shares.
constexpr const char* style = R"(
body { max-width: 1400px; }
table { width: 100%; margin-top: 16px; background: var(--surface); border-radius: 8px; }
th, td { padding: 7px 12px; text-align: right; vertical-align: middle; white-space: nowrap; }
th:first-child, td:first-child, th.bar, td.bar { text-align: left; }
tr:last-child td { border-bottom: 0; }
td.bar { width: 45%; min-width: 260px; }
.stack { display: flex; height: 14px; border-radius: 3px; overflow: hidden; background: var(--faint); }
a { color: inherit; text-underline-offset: 3px; }
)";
constexpr const char* theme = R"html(<script>
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.theme = "dark";
</script>
)html";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

std::string role_name(std::size_t role) { return to_string(static_cast<Role>(role)); }

void write_row(std::ostream& out, int rank, const RankMemory& m, std::size_t most,
               const std::vector<std::size_t>& roles, const std::string& link) {
  out << fmt::format(R"(<tr><td><a href="{}">rank {}</a></td><td class="bar"><div class="stack">)", escaped(link),
                     rank);
  for (const std::size_t role : roles)
    if (m.by_role[role] > 0)
      out << fmt::format(R"html(<i title="{}: {}" style="width:{:.3f}%;background:var(--role-{})"></i>)html",
                         role_name(role), format_bytes(m.by_role[role]),
                         100 * static_cast<double>(m.by_role[role]) / static_cast<double>(most), role);
  out << fmt::format("</div></td><td>{}</td><td>{}</td><td>{}</td>", format_bytes(m.allocated),
                     format_bytes(m.reserved), m.step);
  for (const std::size_t role : roles)
    out << fmt::format("<td{}>{}</td>", m.by_role[role] ? "" : R"( class="zero")", format_bytes(m.by_role[role]));
  out << "</tr>\n";
}

void write_page(std::ostream& out, const std::vector<RankMemory>& all, const std::vector<std::string>& links) {
  std::vector<std::size_t> roles;  // those that a rank holds
  std::size_t most = 1;
  for (const RankMemory& m : all) most = std::max(most, m.allocated);
  for (std::size_t role = 0; role < role_count; ++role)
    if (std::ranges::any_of(all, [&](const RankMemory& m) { return m.by_role[role] > 0; })) roles.push_back(role);
  const auto by_size = [](const RankMemory& a, const RankMemory& b) { return a.allocated < b.allocated; };
  const auto [least, largest] = std::ranges::minmax_element(all, by_size);
  const std::string title = fmt::format("Memory of {} ranks", all.size());
  out << R"(<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">)"
      << "<title>" << title << "</title>\n<style>" << memory::report_page::style << style << "</style>\n"
      << theme << "<h1>" << title << "</h1>\n";
  const std::string range =
      least->allocated == largest->allocated
          ? fmt::format("All peaks are {}.", format_bytes(least->allocated))
          : fmt::format("The peaks are between {} (rank {}) and {} (rank {}).", format_bytes(least->allocated),
                        least - all.begin(), format_bytes(largest->allocated), largest - all.begin());
  out << "<p class=\"note\">Each rank at its peak. " << range << "</p>\n";
  out << R"(<table><thead><tr><th>rank</th><th class="bar">allocated, by role</th><th>allocated</th><th>reserved</th>)"
      << "<th>step</th>";
  for (const std::size_t role : roles)
    out << fmt::format(R"html(<th><span class="swatch" style="background:var(--role-{})"></span>{}</th>)html", role,
                       role_name(role));
  out << "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < all.size(); ++r) write_row(out, static_cast<int>(r), all[r], most, roles, links[r]);
  out << "</tbody></table>\n</html>\n";
}

}  // namespace

void write_rank_index(const std::string& path, const std::function<std::string(int rank)>& page_of, const Group& group,
                      Device device) {
  const std::vector<RankMemory> all = gather_all(device, group);
  if (group.rank() != 0) return;
  std::vector<std::string> links;
  const auto folder = std::filesystem::absolute(path).parent_path();
  for (int r = 0; r < group.size(); ++r)
    links.push_back(std::filesystem::absolute(page_of(r)).lexically_relative(folder).generic_string());
  write_file(path, "the page of ranks", [&](std::ostream& out) { write_page(out, all, links); });
}

}  // namespace bytetape::dist
