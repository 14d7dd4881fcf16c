#pragma once
#include <string>

namespace bytetape::examples {

/// Prints for each device of the recording its timelines, the page of memory::summarize, the use of the reserved bytes
/// and the largest blocks at the peak. Then prints the advice. Returns the exit status.
int summary(const std::string& path);

}  // namespace bytetape::examples
