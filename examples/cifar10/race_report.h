#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "examples/cifar10/race_run.h"
#include "examples/command_line.h"

namespace bytetape::examples {

/// Shows the runs of a race as they go, then all of them as a table and as JSON.
class RaceReport {
 public:
  RaceReport(const RaceOptions& race, const Options& options) : race_(race), options_(options) {}
  /// Prints a line for an epoch.
  void show(std::uint64_t seed, int epoch, const RaceEpoch& state) const;
  /// Prints a line for a run, and keeps it.
  void add(std::uint64_t seed, const RaceResult& result);
  /// Prints the mean and the standard deviation of all runs.
  void print() const;
  /// Writes all runs to the file of --json.
  void write_json(const std::string& dataset) const;

 private:
  struct Run {
    std::uint64_t seed;
    RaceResult result;
  };
  RaceOptions race_;
  Options options_;
  std::vector<Run> runs_;
};

}  // namespace bytetape::examples
