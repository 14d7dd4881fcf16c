#pragma once
#include <string>

namespace bytetape::nn {

/// Removes class names from a path: the ledger's "0 Block.fc1" becomes "0.fc1", as in named_modules().
std::string path_without_classes(const std::string& path);
/// Returns whether the module with path `inner` is a descendant of the module with path `outer`.
bool is_below(const std::string& inner, const std::string& outer);

}  // namespace bytetape::nn
