#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace bytetape::data {

/// Reads a text file, plain or gzip.
/// Throws FileError if the file cannot be read, or its gzip stream is corrupt.
std::string read_text(const std::filesystem::path& path);

/// Returns the text that `name` stands for: a file of that path, or a file of that name, plain or with .gz, in
/// data_folders(dir, "text").
/// Returns nullopt if there is none.
std::optional<std::filesystem::path> find_text(const std::filesystem::path& name,
                                               const std::optional<std::filesystem::path>& dir = {});

}  // namespace bytetape::data
