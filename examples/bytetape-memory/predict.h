#pragma once
#include <cstdint>
#include <string>

namespace bytetape::examples {

/// Replays the requests of a recorded device with a policy (caching or direct) and a limit (0: none). Prints the
/// reserved bytes and whether they fit. Returns the exit status: 1 if they do not fit.
int predict(const std::string& path, const std::string& device, const std::string& policy, std::uint64_t most);

}  // namespace bytetape::examples
