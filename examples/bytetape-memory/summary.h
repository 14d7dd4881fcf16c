#pragma once
#include <string>

namespace bytetape::examples {

/// Prints for each device of the recording its timelines, memory::summarize's page, how what was reserved was used,
/// the largest blocks at the peak, and the advice. Gives the exit status.
int summary(const std::string& path);

}  // namespace bytetape::examples
