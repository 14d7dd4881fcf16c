#pragma once
#include <string>

namespace bytetape::nn {

/// A module's path as named_modules() has it, "0.fc1", of one as the ledger does: "0 Block.fc1".
std::string path_without_classes(const std::string& path);
/// Whether the module of path `inner` is below that of `outer`.
bool is_below(const std::string& inner, const std::string& outer);

}  // namespace bytetape::nn
