#pragma once
#include <string>

namespace bytetape::memory {

/// What is no UTF-8 becomes U+FFFD: readers of files refuse it.
std::string utf8(const std::string& name);

}  // namespace bytetape::memory
