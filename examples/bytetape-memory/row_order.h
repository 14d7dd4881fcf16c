#pragma once
#include <string>
#include <vector>

#include "examples/bytetape-memory/time_rows.h"

namespace bytetape::examples {

/// The columns that `times --sort` takes.
inline const std::vector<std::string> sort_columns = {"name", "phase", "calls", "time", "device", "flop", "bytes"};

/// Whether a row comes before another one in a column: texts in alphabetical order, numbers with the largest first.
/// `column` is one of `sort_columns`.
bool comes_before(const TimeRow& a, const TimeRow& b, const std::string& column);

/// Sorts rows by a column. Rows that are equal there keep their order, and all rows do if `column` is "".
void sort_rows(std::vector<TimeRow>& rows, const std::string& column);

/// Throws ValueError, naming the columns of the table, unless `column` is one of them or "".
void check_column(const std::string& column, const std::vector<std::string>& columns);

}  // namespace bytetape::examples
