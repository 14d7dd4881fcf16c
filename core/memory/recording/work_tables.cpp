#include "bytetape/core/memory/recording/work_tables.h"

namespace bytetape::memory {

WorkTables::Number WorkTables::number_of(std::vector<WorkCount>& rows) {
  if (rows.empty()) return {no_work, false};
  for (const std::vector<WorkCount>& old : latest_) {
    for (WorkCount& row : rows) row.table = old.front().table;
    if (rows == old) return {old.front().table, false};
  }
  for (WorkCount& row : rows) row.table = next_;
  latest_.push_back(rows);
  if (latest_.size() > most) latest_.pop_front();
  return {next_++, true};
}

}  // namespace bytetape::memory
