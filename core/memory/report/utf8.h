#pragma once
#include <string>

namespace bytetape::memory {

/// Returns the name with invalid UTF-8 replaced by U+FFFD, because readers of files reject it.
std::string utf8(const std::string& name);

}  // namespace bytetape::memory
