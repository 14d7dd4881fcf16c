#pragma once
#include <string>
#include <vector>

namespace bytetape::examples {

/// Writes a report of one recording, or of two. The last of `paths` is the page.
/// Returns the exit status.
int page(const std::vector<std::string>& paths);

}  // namespace bytetape::examples
