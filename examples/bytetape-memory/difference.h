#pragma once
#include <string>

namespace bytetape::examples {

/// Compares two recordings, device by device and event by event. Gives the exit status: 1 where they differ.
int difference(const std::string& a, const std::string& b);

}  // namespace bytetape::examples
