#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bytetape::data {

/// Returns the folders in which the dataset `name` is looked for, in order.
/// If `dir` is given: `dir` and `dir`/name. Else, if $BYTETAPE_DATA is set, $BYTETAPE_DATA and $BYTETAPE_DATA/name;
/// then ${XDG_CACHE_HOME:-~/.cache}/bytetape/name.
std::vector<std::filesystem::path> data_folders(const std::optional<std::filesystem::path>& dir,
                                                const std::string& name);

/// Checks that `dir` is a readable folder, or $BYTETAPE_DATA if `dir` is not given and the variable is set.
/// Throws FileError, with the reason, if it is not.
void check_folder(const std::optional<std::filesystem::path>& dir);

}  // namespace bytetape::data
