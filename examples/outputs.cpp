#include "examples/outputs.h"

#include <bytetape/core/memory/report.h>
#include <bytetape/core/write_file.h>

#include <filesystem>
#include <vector>

namespace bytetape::examples {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string option, path;
};

/// Returns true if writing one file would replace the other. A device or a FIFO is never replaced.
bool is_one_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;  // opening the file reports its error
  if (a.empty() || b.empty() || (fs::exists(a, ignored) && !fs::is_regular_file(a, ignored))) return false;
  return fs::weakly_canonical(fs::absolute(a), ignored) == fs::weakly_canonical(fs::absolute(b), ignored);
}

}  // namespace

void check_outputs(const Options& o, const std::string& picture_option) {
  const auto check_file = [](const std::string& path, const char* what) {
    if (!path.empty()) check_writable(path, what);
  };
  check_file(o.json, json_name);
  check_file(o.memory_report, o.reports_page() ? "the memory report" : "the memory timeline");
  check_file(o.recorded_to(), "the recording of memory");
  check_file(o.picture, "the picture");
  check_file(o.checkpoint, "the checkpoint");

  check<Error>(!o.reports_page() || memory::can_write_reports(),
               "--memory-report: this build has no d3, which HTML reports need: install the package node-d3 and build "
               "again, or name a file that does not end in .html, for the timeline as JSON");

  std::error_code ignored;  // check_file has reported errors
  const std::string recording = o.recorded_to();
  check<ValueError>(!o.reports_page() || !fs::exists(recording, ignored) || fs::is_regular_file(recording, ignored),
                    "--memory-log: '", recording,
                    "' is not a regular file, and --memory-report reads the recording from it: name another file");

  check<ValueError>(o.device_times == 0 || !recording.empty(),
                    "--device-times: no recording is written: add --memory-log FILE or --memory-report FILE.html");
  check<ValueError>(o.device_times == 0 || !o.predict,
                    "--device-times: not with --predict, because a prediction runs nothing");
  check<ValueError>(o.device_times == 0 || o.device.starts_with("cuda"),
                    "--device-times: only a run with --device cuda has device times");

  const std::vector<File> files{
      {"--json", o.json},          {"--memory-report", o.memory_report}, {"--memory-log", o.recorded_to()},
      {picture_option, o.picture}, {"--checkpoint", o.checkpoint},       {"--resume", o.resume}};
  for (std::size_t i = 0; i + 2 < files.size(); ++i)  // --checkpoint and --resume may name one file
    for (std::size_t j = i + 1; j < files.size(); ++j)
      check<ValueError>(!is_one_file(files[i].path, files[j].path), files[i].option, " and ", files[j].option,
                        " name the same file, '", files[j].path, "': give each its own");
}

}  // namespace bytetape::examples
