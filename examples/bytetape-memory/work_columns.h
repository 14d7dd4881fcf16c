#pragma once
#include <bytetape/core/memory/times.h>

#include <cstdint>
#include <string>

#include "examples/bytetape-memory/time_rows.h"

namespace bytetape::examples {

/// Formats a number with three digits and a decimal prefix: "1.23 G". "" for 0.
std::string format_decimal(double value);

/// The heading of the columns of work; "" if the step's work was not counted. `with_roofline` adds the last column.
std::string work_heading(const memory::StepTime& step, bool with_roofline);
/// The columns of a row that took `time` nanoseconds. If `time` is 0, the rates are blank.
std::string work_columns(const TimeRow& row, std::uint64_t time, const memory::StepTime& step, bool with_roofline);
/// Returns the least time of a row, rounded; 0 if it is not known.
std::uint64_t least_nanoseconds(const TimeRow& row);
/// How to get the ceilings that are missing; ends with a newline.
extern const char* const ceilings_note;
/// Whether a share of the roofline can be shown for any row.
bool has_roofline(const memory::StepTime& step);
/// Lines that say what is missing for rates and for the share of the roofline, and how to get it.
std::string work_notes(const memory::StepTime& step);

}  // namespace bytetape::examples
