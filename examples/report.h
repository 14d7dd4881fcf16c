#pragma once
#include <optional>
#include <string>

#include "examples/command_line.h"

namespace bytetape::examples {

/// A training run: its example, dataset, objective and options.
struct Run {
  std::string example, dataset;
  Objective objective;
  Options options;
  Unit unit;
};

/// Prints a table of a run's results, and of the memory of the default device.
void print_results(const Run& run, const TrainingResult& r);
/// Prints the names of the files written, and how to resume an interrupted run.
void print_files(const Options& o, bool is_interrupted);
/// Writes the results as JSON to the file that the options name.
/// `measured` is nullopt for a prediction. Its values are then null.
void write_json(const Run& run, const std::optional<TrainingResult>& measured, const memory::Statistics& memory);

}  // namespace bytetape::examples
