#pragma once
#include <string>

namespace bytetape::examples {

/// Compares two recordings, device by device and event by event, or the device of that name alone and its partner.
/// Gives the exit status: 1 where they differ, 2 where one is damaged. Throws ValueError, which names the devices that
/// there are, where neither recording has that one.
int difference(const std::string& a, const std::string& b, const std::string& device);

}  // namespace bytetape::examples
