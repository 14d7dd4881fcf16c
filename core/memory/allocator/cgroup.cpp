#include "bytetape/core/memory/allocator/cgroup.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace bytetape::memory {
namespace {

constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();

/// Returns the number in a file; unbounded if the file has "max" or does not exist.
std::size_t read_bound(const std::string& path) {
  std::ifstream file(path);
  std::size_t bytes = 0;
  return file >> bytes ? bytes : unbounded;
}

/// Returns the lowest bound of a group and its parents. In a container the path may be the host's, and only the root of
/// the mount may be visible.
std::size_t least_bound(const std::string& mount, std::string group, const std::string& file) {
  std::size_t least = unbounded;
  for (;;) {
    while (group.ends_with('/')) group.pop_back();
    least = std::min(least, read_bound(mount + group + file));
    if (group.empty()) return least;
    group.resize(std::min(group.find_last_of('/'), group.size() - 1));
  }
}

}  // namespace

std::size_t cgroup_memory_limit(const std::string& membership, const std::string& root) {
  std::size_t least = read_bound(root + "/memory.max");
  std::ifstream groups(membership);
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,memory:/a/b", or "0::/a/b" in version 2
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,")
      least = std::min(least, least_bound(root, group, "/memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, least_bound(root + "/memory", group, "/memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace bytetape::memory
