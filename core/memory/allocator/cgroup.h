#pragma once
#include <cstddef>
#include <string>

namespace bytetape::memory {

/// Bytes that the control groups of this process allow it: the least bound on the way from its own group up to the
/// root, of version 2 (memory.max) and version 1 (memory.limit_in_bytes). The largest number there is where none is set
/// or none can be read. `membership` is the file that names its groups, `root` where they are mounted.
std::size_t cgroup_memory_limit(const std::string& membership = "/proc/self/cgroup",
                                const std::string& root = "/sys/fs/cgroup");

}  // namespace bytetape::memory
