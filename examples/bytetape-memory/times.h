#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace bytetape::examples {

/// Prints where the time of a step went. `step` is its number; 0: the mean of all steps after the first. `by` is "op",
/// "module" or "call", which is an op in a module. Prints at most `most` rows. `ceilings` is a file of bench/ceilings;
/// "": the recording's own. Returns the exit status.
/// Throws ValueError if the recording has no such step.
/// Throws FileError if the ceilings cannot be read.
int times(const std::string& path, std::uint32_t step, const std::string& by, std::size_t most,
          const std::string& ceilings);

/// Prints the kernels, copies and fills of a step, or of all steps with device times after the first, by their time.
/// Prints at most `most` rows. Returns the exit status.
/// Throws ValueError if the recording has no device times, or not of that step.
int kernels(const std::string& path, std::uint32_t step, std::size_t most);

}  // namespace bytetape::examples
