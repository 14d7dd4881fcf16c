#include "examples/bytetape-memory/row_order.h"

#include <bytetape/core/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace bytetape::examples {

bool comes_before(const TimeRow& a, const TimeRow& b, const std::string& column) {
  if (column == "name") return a.name < b.name;
  if (column == "phase") return a.phase < b.phase;
  if (column == "calls") return a.calls > b.calls;
  if (column == "time") return a.time > b.time;
  if (column == "device") return a.device_time > b.device_time;
  if (column == "flop") return a.flop > b.flop;
  return a.bytes > b.bytes;
}

void sort_rows(std::vector<TimeRow>& rows, const std::string& column) {
  if (column.empty()) return;
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const TimeRow& a, const TimeRow& b) { return comes_before(a, b, column); });
}

void check_column(const std::string& column, const std::vector<std::string>& columns) {
  const bool has_it = column.empty() || std::find(columns.begin(), columns.end(), column) != columns.end();
  check<ValueError>(has_it, "times: --sort: this table has no column ", column, ", only ",
                    fmt::format("{}", fmt::join(columns, ", ")),
                    column == "device" ? "; device times need a step that was recorded with "
                                         "RecordingOptions::device_times_every, or --device-times of the examples"
                                       : "");
}

}  // namespace bytetape::examples
