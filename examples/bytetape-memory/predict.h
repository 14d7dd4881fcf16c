#pragma once
#include <cstdint>
#include <string>

namespace bytetape::examples {

/// Serves the requests of a recorded device anew, by another policy (caching or direct) or under a limit, and prints
/// what would be reserved and whether it fits. 0 is no limit. Gives the exit status: 1 where it does not.
int predict(const std::string& path, const std::string& device, const std::string& policy, std::uint64_t most);

}  // namespace bytetape::examples
