#include "bytetape/data/text.h"

#include <memory>

#include "bytetape/data/folders.h"
#include "bytetape/data/source.h"

namespace bytetape::data {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  const std::unique_ptr<Source> source = inflated(open_file(path), path.string());
  std::string text;
  for (std::size_t got = piece; got == piece;) {
    const std::size_t before = text.size();
    text.resize(before + piece);
    got = source->read(reinterpret_cast<std::byte*>(text.data() + before), piece);
    text.resize(before + got);
  }
  return text;
}

std::optional<fs::path> find_text(const fs::path& name, const std::optional<fs::path>& dir) {
  std::error_code ignored;  // a file that cannot be accessed counts as missing
  if (fs::is_regular_file(name, ignored)) return name;
  for (const fs::path& folder : data_folders(dir, "text"))
    for (const char* suffix : {"", ".gz"})
      if (fs::path path = folder / (name.string() + suffix); fs::is_regular_file(path, ignored)) return path;
  return std::nullopt;
}

}  // namespace bytetape::data
