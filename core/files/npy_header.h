#pragma once
#include <cstdint>
#include <string>

#include "bytetape/core/files/elements.h"
#include "bytetape/core/files/input.h"
#include "bytetape/core/tensor.h"

/// \file
/// The header of an .npy file: "\x93NUMPY", the version in two bytes, the length of what follows in two (version 1) or
/// four, little-endian, then a Python dict, filled up with spaces and ended by a newline:
///
///     {'descr': '<f4', 'fortran_order': False, 'shape': (10, 784), }
namespace bytetape {

struct NpyHeader {
  StoredType stored = DType::f32;  ///< the elements, and the dtype that they become
  bool fortran_order = false;
  Shape shape;
  std::uint64_t bytes = 0;  ///< of the header: where the elements begin
};

/// "<f4"; null if NumPy has no such dtype.
const char* npy_descr(StoredType t);

/// Throws FileError where `from` does not begin with a header.
NpyHeader parse_npy_header(const Input& from);
/// The header in version 1.0, all of it.
std::string format_npy_header(DType dtype, const Shape& shape);

}  // namespace bytetape
