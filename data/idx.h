#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "bytetape/core/tensor.h"

namespace bytetape::data {

/// Reads a file in the IDX format (http://yann.lecun.com/exdb/mnist/), plain or gzip; which of the two its first bytes
/// tell, not its name. The result is on the CPU, role `input`, with the file's shape (rank 1 to 8) and
///
///     code in the file   0x08 u8   0x09 i8   0x0b i16   0x0c i32   0x0d f32   0x0e f64
///     dtype                   u8        i32        i32        i32        f32        f64
///
/// Throws FileError, naming the path, what was expected and what was found, where the file cannot be read or is
/// anything but one whole IDX array. No length in the file is trusted: the tensor is only allocated once its size
/// agrees with the file's, or, where it is compressed, with the most that so many bytes can inflate to.
Tensor read_idx(const std::filesystem::path& path);

/// The same from memory; `name` stands for the path in messages.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name);

}  // namespace bytetape::data
