#pragma once
#include <string>

namespace bytetape::examples {

/// Prints the request that ended the run out of memory, if one did. Then prints for each device of the recording its
/// timelines, the page of memory::summarize, the use of the reserved bytes and the largest blocks at the peak, and the
/// advice. Returns the exit status.
int summary(const std::string& path);

}  // namespace bytetape::examples
