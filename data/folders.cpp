#include "bytetape/data/folders.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "bytetape/core/error.h"

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

void check_folder(const fs::path& dir) {
  std::error_code error;
  const bool is_folder = fs::is_directory(dir, error);
  if (!error && !is_folder) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(dir.c_str(), R_OK | X_OK) != 0) error.assign(errno, std::generic_category());
  check<FileError>(!error, dir.string(), ": cannot read this folder: ", error.message());
}

}  // namespace bytetape::data
