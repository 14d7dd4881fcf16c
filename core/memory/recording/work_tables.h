#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "bytetape/core/memory/work_count.h"

namespace bytetape::memory {

/// Numbers the tables of work in a file. Steps of equal work share a table, so that a step takes few bytes.
class WorkTables {
 public:
  struct Number {
    std::uint32_t table;
    bool is_new;
  };
  /// Returns the number of rows like these, and sets their `table`. The latest tables are remembered. Without rows, the
  /// number is no_work.
  Number number_of(std::vector<WorkCount>& rows);

 private:
  static constexpr std::size_t most = 64;
  std::deque<std::vector<WorkCount>> latest_;  // the newest last
  std::uint32_t next_ = 0;
};

}  // namespace bytetape::memory
