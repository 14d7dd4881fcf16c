#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace bytetape::examples {

/// Options of times() and beside().
struct TimesOptions {
  std::uint32_t step = 0;    ///< number of the step; 0: the mean of all steps after the first
  std::uint32_t beside = 0;  ///< number of a second step, for `beside`
  std::string by = "op";     ///< "op", "module" or "call", which is an op in a module
  std::string sort;          ///< the column to sort by (row_order.h); "": the most time first
  std::string ceilings;      ///< a file of bench/ceilings; "": the recording's own
  std::size_t rows = 20;     ///< the most rows to print
};

/// Prints where the time of a step went. Returns the exit status.
/// Throws ValueError if the recording has no such step, or the table no such column.
/// Throws FileError if the ceilings cannot be read.
int times(const std::string& path, const TimesOptions& options);

/// Prints the kernels, copies and fills of a step, or of all steps with device times after the first, by their time.
/// Prints at most `most` rows. Returns the exit status.
/// Throws ValueError if the recording has no device times, or not of that step.
int kernels(const std::string& path, std::uint32_t step, std::size_t most);

}  // namespace bytetape::examples
