#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bytetape::examples {

/// Bytes allocated at each reading of a program; nullopt where PyTorch has no such thing.
using PyTorchReadings = std::vector<std::optional<std::size_t>>;

/// What pytorch.py wrote: the programs of the tour in PyTorch, on a GPU.
struct PyTorchTour {
  std::string version, device;
  std::map<std::pair<int, int>, PyTorchReadings> programs;  // by stop and part, from 1

  /// None where PyTorch has no such program.
  PyTorchReadings readings(int stop, int part) const;
};

/// Throws FileError where `path` cannot be read or holds something else.
PyTorchTour read_pytorch_tour(const std::string& path);

}  // namespace bytetape::examples
