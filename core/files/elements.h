#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "bytetape/core/files/input.h"
#include "bytetape/core/tensor.h"

/// \file
/// Reads and writes the elements of tensors: row-major and little-endian in the file, any layout and device in memory.
/// They move in pieces of 4 MiB, so that files of any size need only a few pieces of host memory (workspace).
namespace bytetape {

/// The type of elements in a file: a DType, or a narrow integer type that is widened to a DType.
struct StoredType {
  enum class Narrow : std::uint8_t { none, i8, i16, u16, u32 };
  DType dtype = DType::f32;  ///< the dtype after loading
  Narrow narrow = Narrow::none;

  constexpr StoredType(DType t) : dtype(t) {}
  /// i8, i16 and u16 are widened to i32, and u32 to i64: the narrowest signed dtypes that represent all values.
  constexpr StoredType(Narrow n) : dtype(n == Narrow::u32 ? DType::i64 : DType::i32), narrow(n) {}
  friend bool operator==(StoredType, StoredType) = default;
};
/// Returns the bytes of an element in the file.
constexpr std::size_t size_of(StoredType t) {
  constexpr std::size_t sizes[]{0, 1, 2, 2, 4};
  return t.narrow == StoredType::Narrow::none ? size_of(t.dtype) : sizes[static_cast<std::size_t>(t.narrow)];
}

/// A piece of host memory, of at most `bytes`.
class Piece {
 public:
  explicit Piece(std::uint64_t bytes);
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  Tensor memory_;
  std::span<std::byte> bytes_;
};

/// Passes x's elements to `sink`, in pieces.
void write_elements(const Tensor& x, const std::function<void(std::span<const std::byte>)>& sink);
/// Reads `stored` elements at `offset` into x, converts them to x's dtype, and counts a write of x. `piece` must hold
/// all of them as stored.dtype, or have the full size.
/// Throws FileError if there are too few bytes. x is then partly written.
void read_elements(const Input& from, std::uint64_t offset, StoredType stored, const Tensor& x, const Piece& piece);
/// Reads the bytes from `begin` to `end`, and passes each piece to `see` with its offset.
void read_pieces(const Input& from, std::uint64_t begin, std::uint64_t end,
                 const std::function<void(std::uint64_t at, std::span<const std::byte>)>& see);
/// Throws FileError if one of `bytes`, at offset `at`, is not a bool: 0 or 1.
void check_bools(const Input& from, std::uint64_t at, std::span<const std::byte> bytes);

}  // namespace bytetape
