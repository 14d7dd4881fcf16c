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

static std::optional<fs::path> named_in_environment() {
  const char* data = std::getenv("BYTETAPE_DATA");
  return data && *data ? std::optional<fs::path>(data) : std::nullopt;
}

std::vector<fs::path> data_folders(const std::optional<fs::path>& dir, const std::string& name) {
  if (dir) return {*dir, *dir / name};
  const fs::path cache = cache_dir() / "bytetape" / name;
  if (const auto data = named_in_environment()) return {*data, *data / name, cache};
  return {cache};
}

void check_folder(const std::optional<fs::path>& dir) {
  const std::optional<fs::path> named = dir ? dir : named_in_environment();
  if (!named) return;
  std::error_code error;
  const bool is_folder = fs::is_directory(*named, error);
  if (!error && !is_folder) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(named->c_str(), R_OK | X_OK) != 0) error.assign(errno, std::generic_category());
  check<FileError>(!error, dir ? "" : "$BYTETAPE_DATA, ", named->string(),
                   ": cannot read this folder: ", error.message());
}

}  // namespace bytetape::data
