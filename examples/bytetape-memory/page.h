#pragma once
#include <string>
#include <vector>

namespace bytetape::examples {

/// Writes memory::write_report's page of one recording, or of two beside each other. `paths` end in that of the page.
/// Gives the exit status.
int page(const std::vector<std::string>& paths);

}  // namespace bytetape::examples
