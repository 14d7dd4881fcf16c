#include "examples/bytetape-memory/timelines.h"

#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/replay.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "examples/bytetape-memory/sparkline.h"

namespace bytetape::examples {
namespace {

constexpr std::size_t label_width = 22, peak_width = 10, fewest_columns = 20;

struct Row {
  std::string label;
  std::vector<std::size_t> levels;  // maximum of each column
  std::size_t peak = 0;

  /// Raises the maximum of a column.
  void see(std::size_t column, std::size_t level) {
    levels[column] = std::max(levels[column], level);
    peak = std::max(peak, level);
  }
};

class Timelines {
 public:
  Timelines(const memory::DeviceLog& device, std::size_t columns) : columns_(std::min(columns, device.records.size())) {
    rows_.push_back(row("allocated"));
    for (int r = 0; r < memory::role_count; ++r)
      rows_.push_back(row(std::string("  ") + to_string(static_cast<memory::Role>(r))));
    rows_.push_back(row("reserved"));
    steps_.assign(columns_, ' ');
    for (std::size_t i = 0; i < device.records.size(); ++i)
      take(device.records[i].event, i * columns_ / device.records.size());
  }

  std::string text() const {
    std::string out;
    for (const Row& row : rows_)
      if (row.peak)
        out += fmt::format("{:<{}}{}{:>{}}\n", row.label, label_width, sparkline(row.levels, row.peak),
                           memory::format_bytes(row.peak), peak_width);
    const std::string steps = steps_.substr(0, steps_.find_last_not_of(' ') + 1);
    if (!steps.empty()) out += fmt::format("{:<{}}{}\n", "step", label_width, steps);
    return out;
  }

 private:
  Row row(const std::string& label) const { return {label, std::vector<std::size_t>(columns_)}; }

  void take(const memory::Event& e, std::size_t column) {
    replay_.apply(e);
    rows_.front().see(column, replay_.allocated());
    for (std::size_t r = 0; r < memory::role_count; ++r) rows_[1 + r].see(column, replay_.by_role()[r]);
    rows_.back().see(column, replay_.reserved());
    if (e.kind == memory::EventKind::step_begin) mark_step(std::to_string(e.step), column);
  }

  /// Writes a step's number if there is room for it.
  void mark_step(const std::string& number, std::size_t column) {
    if (column < free_from_ || column + number.size() > columns_) return;
    steps_.replace(column, number.size(), number);
    free_from_ = column + number.size() + 1;
  }

  const std::size_t columns_;
  memory::Replay replay_;
  std::vector<Row> rows_;
  std::string steps_;
  std::size_t free_from_ = 0;
};

}  // namespace

std::string timelines(const memory::DeviceLog& device, std::size_t width) {
  const std::size_t around = label_width + peak_width;
  return Timelines(device, std::max(width, around + fewest_columns) - around).text();
}

}  // namespace bytetape::examples
