#include "bytetape/data/folders.h"

#include <cstdlib>

namespace bytetape::data {

namespace fs = std::filesystem;

static fs::path cache_dir() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return cache;
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : "") / ".cache";
}

std::vector<fs::path> data_folders(const std::optional<fs::path>& dir, const std::string& name) {
  if (dir) return {*dir, *dir / name};
  const fs::path cache = cache_dir() / "bytetape" / name;
  if (const char* data = std::getenv("BYTETAPE_DATA"); data && *data)
    return {fs::path(data), fs::path(data) / name, cache};
  return {cache};
}

}  // namespace bytetape::data
