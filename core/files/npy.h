#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Writes x as numpy.save does, row-major, from any layout and device. The file is replaced as a whole or not at all.
/// Throws ValueError if x is undefined.
/// Throws DTypeError if x is bf16, which NumPy lacks.
/// Throws DeviceError if x is a meta tensor.
/// Throws FileError if the file cannot be written.
void save_npy(const std::string& path, const Tensor& x);

/// Reads an .npy file, versions 1.0 to 3.0, in C or Fortran order
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). The tensor is row-major. Files of any size
/// need only a few pieces of host memory. The dtypes are
///
///     descr   '<f8'   '<f4'   '<f2'   '<i8'   '<i4'   '|u1'   '|b1'
///     dtype    f64     f32     f16     i64     i32     u8      bool
///
/// '|i1', '<i2' and '<u2' are widened to i32, and '<u4' to i64.
///
/// Throws FileError, with path, byte, expected and found content, if the file cannot be read or is not exactly one
/// array of these dtypes. Lengths in the file are checked before use.
Tensor load_npy(const std::filesystem::path& path, Device device = default_device(),
                memory::Role role = memory::Role::temporary);

/// Parses an .npy file in memory. `name` replaces the path in messages.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name, Device device = default_device(),
                 memory::Role role = memory::Role::temporary);

}  // namespace bytetape
