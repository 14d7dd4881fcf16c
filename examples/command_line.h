#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/training.h"

namespace CLI {
class App;
}

namespace bytetape::examples {

/// The options of a command line.
struct Options : TrainingOptions {
  std::string model, optimizer, data, device = "cpu", resume, memory_report, memory_log, json, picture;
  int threads = 0;
  bool fit = false;                // choose memory options with which training fits into the limit
  bool predict = false;            // predict the memory instead of training
  bool time_advice = false;        // measure the time of the memory options that the report advises
  std::uint64_t memory_limit = 0;  // bytes; 0: all memory of the device
  std::uint32_t device_times = 0;  // the recording has device times of every K-th step; 0: of none

  /// Returns true if the memory report is an HTML page, by its file extension; else it is the timeline as JSON.
  bool reports_page() const { return memory_report.ends_with(".html"); }
  /// Returns the path of the memory recording: --memory-log, else a file beside the HTML page, else "" for no
  /// recording.
  std::string recorded_to() const {
    if (!memory_log.empty() || !reports_page()) return memory_log;
    return std::filesystem::path(memory_report).replace_extension(".memlog").string();
  }

  std::optional<std::filesystem::path> data_folder() const {
    return data.empty() ? std::nullopt : std::optional<std::filesystem::path>(data);
  }
};

inline memory::RecordingOptions recording_options(const Options& o) { return {.device_times_every = o.device_times}; }

/// The help texts of options that differ between the examples.
struct OptionTexts {
  std::vector<std::string> models = {};      // empty if there is no choice
  std::vector<std::string> optimizers = {};  // empty if there is no choice
  const char* examples = "images";           // of the data
  std::string data, lr, until;
  std::string picture_option = {}, picture = {};  // empty if there is no picture
};

inline constexpr const char* until_accuracy = "stop after the epoch that reaches this test accuracy, in %";

/// Adds all options to `app`. The values of `o` are their defaults.
void add_options(CLI::App& app, Options& o, const OptionTexts& texts);

/// Parses the command line.
/// Throws CLI::ParseError, which names an unknown option and the one that is meant.
void parse(CLI::App& app, int argc, char** argv);

}  // namespace bytetape::examples
