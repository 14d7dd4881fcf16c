#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "bytetape/core/tensor.h"

namespace bytetape::data {

/// Reads a file in the IDX format (http://yann.lecun.com/exdb/mnist/), plain or gzip.
/// The first bytes, not the name, determine whether the file is compressed. The result is on the CPU, with the role
/// `input` and the file's shape (rank 1 to 8):
///
///     code in the file   0x08 u8   0x09 i8   0x0b i16   0x0c i32   0x0d f32   0x0e f64
///     dtype                   u8        i32        i32        i32        f32        f64
///
/// No length in the file is trusted. The tensor is allocated after its size was compared with the file's size, or with
/// the most that a compressed file of that size can inflate to.
/// Throws FileError, naming the path, what was expected and what was found, if the file cannot be read or is not
/// exactly one IDX array.
Tensor read_idx(const std::filesystem::path& path);

/// Parses an IDX file in memory. `name` replaces the path in messages. Throws as read_idx().
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name);

}  // namespace bytetape::data
