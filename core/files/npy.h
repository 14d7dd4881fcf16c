#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Writes x as numpy.save does, row-major whatever its layout and device. The file appears, or is replaced, whole or
/// not at all (write_file). Throws ValueError where x is undefined, DTypeError on bf16, which NumPy does not have,
/// DeviceError on a meta tensor, FileError where it cannot be written.
void save_npy(const std::string& path, const Tensor& x);

/// Reads a file in NumPy's format, versions 1.0 to 3.0
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), in C or Fortran order; the tensor is
/// row-major. It goes to `device` by way of a few pieces of the host's memory, however large it is. The dtypes are
///
///     descr   '<f8'   '<f4'   '<f2'   '<i8'   '<i4'   '|u1'   '|b1'
///     dtype    f64     f32     f16     i64     i32     u8      bool
///
/// and integers that are widened: '|i1', '<i2' and '<u2' to i32, '<u4' to i64.
///
/// Throws FileError, with the path, the byte, what was expected and what was found, where the file cannot be read or is
/// anything but one whole array of these. No length in the file is trusted.
Tensor load_npy(const std::filesystem::path& path, Device device = default_device(),
                memory::Role role = memory::Role::temporary);

/// The same from memory; `name` stands for the path in messages.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name, Device device = default_device(),
                 memory::Role role = memory::Role::temporary);

}  // namespace bytetape
