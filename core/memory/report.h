#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// What a report shows.
struct Report {
  const Log* run = nullptr;
  const Log* other = nullptr;       ///< a second run to hold against it: SGD beside Adam, predicted beside measured
  std::vector<std::string> advice;  ///< sentences, shown first
};

/// Whether this library was built with what reports are drawn with.
bool can_write_reports();

/// Writes a recording as one HTML file that needs nothing else: docs/memory.md ("The report") tells what it shows.
/// Equal recordings write equal bytes. Throws Error where this library was built without d3.
void write_report(const Report& report, std::ostream& out);
/// The same into a file, which appears or is replaced whole or not at all, as write_timeline's. Throws FileError.
void write_report(const Report& report, const std::string& path);
/// A run, with what advise() says of it.
void write_report(const Log& run, const std::string& path);
/// The recording that runs, as far as it has come; else the last that was finished; else what the ledgers of the
/// process keep, which the page says (log_so_far).
void write_report(const std::string& path);
/// Two runs beside each other.
void write_report(const Log& run, const Log& other, const std::string& path);

}  // namespace bytetape::memory
