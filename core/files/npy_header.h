#pragma once
#include <cstdint>
#include <string>

#include "bytetape/core/files/elements.h"
#include "bytetape/core/files/input.h"
#include "bytetape/core/tensor.h"

/// \file
/// The header of an .npy file: "\x93NUMPY", the version (two bytes), the length of the rest (two bytes in version 1,
/// else four, little-endian), and a Python dict, padded with spaces and ended by a newline:
///
///     {'descr': '<f4', 'fortran_order': False, 'shape': (10, 784), }
namespace bytetape {

struct NpyHeader {
  StoredType stored = DType::f32;  ///< type of the elements, and their dtype after loading
  bool fortran_order = false;
  Shape shape;
  std::uint64_t bytes = 0;  ///< size of the header; the elements follow
};

/// Returns NumPy's name, "<f4", or null if NumPy has no such dtype.
const char* npy_descr(StoredType t);

/// Throws FileError if `from` does not begin with a valid header.
NpyHeader parse_npy_header(const Input& from);
/// Returns the complete header, in version 1.0.
std::string format_npy_header(DType dtype, const Shape& shape);

}  // namespace bytetape
