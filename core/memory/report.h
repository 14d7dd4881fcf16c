#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// The contents of a report.
struct Report {
  const Log* run = nullptr;
  const Log* other = nullptr;              ///< a second run to compare with: SGD and Adam, predicted and measured
  std::vector<std::string> advice;         ///< sentences, each perhaps followed by a line of code to copy; shown first
  std::string file = {}, other_file = {};  ///< names of the recordings, which tell two runs of one program apart
};

/// Whether this build includes d3, which reports need.
bool can_write_reports();

/// Writes a recording as one self-contained HTML file. docs/memory.md ("The report") describes it. Equal recordings
/// write equal bytes.
/// Throws Error if this library was built without d3.
void write_report(const Report& report, std::ostream& out);
/// Writes the report to a file, which appears or is replaced whole or not at all, as write_timeline's is.
/// Throws FileError if the file cannot be written.
void write_report(const Report& report, const std::string& path);
/// Writes a report of a run, with the advice of advise().
void write_report(const Log& run, const std::string& path);
/// Writes a report of log_so_far(): the running recording, else the last finished one, else the logs of the process's
/// ledgers. The page says so in the last case.
void write_report(const std::string& path);
/// Writes a report that compares two runs.
void write_report(const Log& run, const Log& other, const std::string& path);

}  // namespace bytetape::memory
