#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bytetape::data {

/// Where the data set that lies in a folder `name` is looked for, in this order: `dir` and `dir`/name where `dir` is
/// given; else $BYTETAPE_DATA and $BYTETAPE_DATA/name where that is set, then
/// ${XDG_CACHE_HOME:-~/.cache}/bytetape/name.
std::vector<std::filesystem::path> data_folders(const std::optional<std::filesystem::path>& dir,
                                                const std::string& name);

/// Throws FileError, saying why, unless `dir` is a folder whose files can be looked at; where it is not given, unless
/// $BYTETAPE_DATA is unset or such a folder.
void check_folder(const std::optional<std::filesystem::path>& dir);

}  // namespace bytetape::data
