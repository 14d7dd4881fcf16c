#pragma once
#include <string>

namespace bytetape::examples {

/// Compares two recordings by device and event. With a `device`, compares only that device and its partner.
/// Returns the exit status: 1 if they differ, 2 if one is damaged.
/// Throws ValueError, naming the existing devices, if neither recording has `device`.
int difference(const std::string& a, const std::string& b, const std::string& device);

}  // namespace bytetape::examples
