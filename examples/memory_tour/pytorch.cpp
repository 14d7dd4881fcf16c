#include "examples/memory_tour/pytorch.h"

#include <bytetape/core/error.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace bytetape::examples {
namespace {

PyTorchReadings readings_from(const nlohmann::json& values) {
  PyTorchReadings readings;
  for (const auto& value : values)
    readings.push_back(value.is_null() ? std::nullopt : std::optional(value.get<std::size_t>()));
  return readings;
}

void add_line(PyTorchTour& tour, const std::string& line) {
  const auto json = nlohmann::json::parse(line);
  if (json.contains("pytorch")) {
    tour.version = json.at("pytorch");
    tour.device = json.at("device");
  } else {
    tour.programs[{json.at("stop"), json.at("part")}] = readings_from(json.at("allocated"));
  }
}

}  // namespace

PyTorchReadings PyTorchTour::readings(int stop, int part) const {
  const auto found = programs.find({stop, part});
  return found == programs.end() ? PyTorchReadings() : found->second;
}

PyTorchTour read_pytorch_tour(const std::string& path) {
  std::ifstream file(path);
  check<FileError>(file.is_open(), "cannot read '", path, "'");
  PyTorchTour tour;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    try {
      add_line(tour, line);
    } catch (const nlohmann::json::exception&) {
      fail<FileError>(path, ": line ", number, ": expected a line that examples/memory_tour/pytorch.py writes");
    }
  }
  check<FileError>(!tour.version.empty(), path, ": expected a line with PyTorch's version and device, got none");
  return tour;
}

}  // namespace bytetape::examples
