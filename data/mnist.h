#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/data/dataset.h"

namespace bytetape::data {

/// Images of handwritten digits and their labels.
struct Mnist {
  Tensor images;     ///< u8 (n, 28, 28), 0 is background
  Tensor labels;     ///< i64 (n,), 0 to 9
  std::string name;  ///< name of the data in outputs: "MNIST" or "generated digits"
};

/// Returns the folders in which find_mnist() looks, in order.
/// If `dir` is given: `dir` and `dir`/mnist. Else, if $BYTETAPE_DATA is set, $BYTETAPE_DATA and $BYTETAPE_DATA/mnist;
/// then ${XDG_CACHE_HOME:-~/.cache}/bytetape/mnist, where scripts/download_mnist puts the files.
std::vector<std::filesystem::path> mnist_folders(const std::optional<std::filesystem::path>& dir = {});

/// Returns the first of mnist_folders() that has MNIST's four files under their original names, plain or with .gz.
/// Returns nullopt if `dir` is not given and no folder has all four.
/// Throws FileError, naming the missing file, if `dir` is given and lacks a file or cannot be read.
/// Throws FileError if none is found and $BYTETAPE_DATA is not a readable folder.
std::optional<std::filesystem::path> find_mnist(const std::optional<std::filesystem::path>& dir = {});

/// Reads a split from a folder that find_mnist() returned.
/// Throws FileError if a file is missing or corrupt, images are not 28 x 28, a label is not 0 to 9, or the numbers of
/// images and labels differ.
Mnist load_mnist(const std::filesystem::path& dir, Split split);

}  // namespace bytetape::data
