#include "examples/bytetape-memory/time_rows.h"

#include <algorithm>
#include <map>
#include <utility>

namespace bytetape::examples {

std::vector<TimeRow> time_rows(const memory::Log& log, const memory::StepTime& step, const std::string& by) {
  std::map<std::pair<std::string, std::string>, TimeRow> groups;
  for (const memory::OpTime& r : step.rows) {
    const std::string module = r.module ? log.names[r.module] : "(outside modules)";
    std::string name = by == "module" ? module : r.op == 0 ? "between ops" : log.names[r.op];
    if (by == "call" && r.op && r.module) name += " in " + module;
    const std::string phase = by != "module" && r.op == 0 ? "" : memory::to_string(r.phase);
    TimeRow& row = groups[{name, phase}];
    row.name = name;
    row.phase = phase;
    row.calls += r.calls;
    row.time += r.time;
  }
  std::vector<TimeRow> rows;
  for (auto& [key, row] : groups) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const TimeRow& a, const TimeRow& b) { return a.time > b.time; });
  return rows;
}

std::vector<memory::StepTime> later_steps(const std::vector<memory::StepTime>& steps) {
  return {steps.begin() + (steps.size() > 1), steps.end()};
}

}  // namespace bytetape::examples
