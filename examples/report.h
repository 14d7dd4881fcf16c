#pragma once
#include <optional>
#include <string>

#include "examples/command_line.h"

namespace bytetape::examples {

/// What was trained on what.
struct Run {
  std::string example, dataset;
  Objective objective;
  Options options;
};

/// A table of what came of a run on the default device, and where its memory went.
void print_results(const Run& run, const TrainingResult& r);
/// Where else to look, and what a run that was interrupted goes on from.
void print_files(const Options& o, bool is_interrupted);
/// The same for programs, to the file that the options name, of a run that was measured or of a prediction, of which
/// the figures are null.
void write_json(const Run& run, const std::optional<TrainingResult>& measured, const memory::Statistics& memory);

}  // namespace bytetape::examples
