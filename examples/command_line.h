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

/// What a command line says.
struct Options : TrainingOptions {
  std::string model, optimizer, data, device = "cpu", resume, memory_report, memory_log, json, picture;
  int threads = 0;
  bool fit = false;                // training into the limit
  bool predict = false;            // the memory, in place of training
  std::uint64_t memory_limit = 0;  // bytes; 0: all that the device has

  /// Whether the memory report is a page for a browser, by its ending; else it is the timeline.
  bool reports_page() const { return memory_report.ends_with(".html"); }
  /// Where memory is recorded, beside the page unless told; "" where nothing asks for it.
  std::string recorded_to() const {
    if (!memory_log.empty() || !reports_page()) return memory_log;
    return std::filesystem::path(memory_report).replace_extension(".memlog").string();
  }

  std::optional<std::filesystem::path> data_folder() const {
    return data.empty() ? std::nullopt : std::optional<std::filesystem::path>(data);
  }
};

/// What the examples' options have to say that is not the same for all.
struct OptionTexts {
  std::vector<std::string> models;
  std::vector<std::string> optimizers = {};  // where there is a choice
  std::string data, lr, until;
  std::string picture_option = {}, picture = {};  // where there is one
};

inline constexpr const char* until_accuracy = "stop after the epoch that reaches this test accuracy, in %";

/// Adds every option to `app`; what `o` holds is the defaults.
void add_options(CLI::App& app, Options& o, const OptionTexts& texts);

}  // namespace bytetape::examples
