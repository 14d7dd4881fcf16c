#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bytetape::examples {

/// The bytes allocated at each reading of a program; nullopt for a reading that PyTorch does not have.
using PyTorchReadings = std::vector<std::optional<std::size_t>>;

/// The output of pytorch.py: the programs of the tour in PyTorch, on a GPU.
struct PyTorchTour {
  std::string version, device;
  std::map<std::pair<int, int>, PyTorchReadings> programs;  // by stop and part, from 1

  /// Returns the readings of a program; empty if PyTorch has no such program.
  PyTorchReadings readings(int stop, int part) const;
};

/// Reads the output of pytorch.py.
/// Throws FileError if `path` cannot be read or has another format.
PyTorchTour read_pytorch_tour(const std::string& path);

}  // namespace bytetape::examples
