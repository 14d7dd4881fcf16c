#pragma once
#include <cstddef>
#include <string>

namespace bytetape::memory {

/// Returns the memory limit of this process's control groups, in bytes. That is the smallest limit from its own group
/// up to the root, of version 2 (memory.max) and version 1 (memory.limit_in_bytes). Returns SIZE_MAX if no limit is set
/// or readable. `membership` is the file that names the groups, `root` the directory where they are mounted.
std::size_t cgroup_memory_limit(const std::string& membership = "/proc/self/cgroup",
                                const std::string& root = "/sys/fs/cgroup");

}  // namespace bytetape::memory
