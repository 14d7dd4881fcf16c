#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "bytetape/core/files/input.h"
#include "bytetape/core/tensor.h"

/// \file
/// The elements of tensors on their way to a file and back: row-major, little-endian, whatever the tensor's layout and
/// device. They go in pieces of 4 MiB, so that a file of any size takes a few of these of the host's memory
/// (workspace).
namespace bytetape {

/// How the elements of a file are stored: as a dtype of ours, or as integers that become those of a wider one.
struct StoredType {
  enum class Narrow : std::uint8_t { none, i8, i16, u16, u32 };
  DType dtype = DType::f32;  ///< what they become
  Narrow narrow = Narrow::none;

  constexpr StoredType(DType t) : dtype(t) {}
  /// i8, i16 and u16 become i32, and u32 i64: the narrowest signed dtype that has all of their values.
  constexpr StoredType(Narrow n) : dtype(n == Narrow::u32 ? DType::i64 : DType::i32), narrow(n) {}
  friend bool operator==(StoredType, StoredType) = default;
};
/// Bytes of an element in the file.
constexpr std::size_t size_of(StoredType t) {
  constexpr std::size_t sizes[]{0, 1, 2, 2, 4};
  return t.narrow == StoredType::Narrow::none ? size_of(t.dtype) : sizes[static_cast<std::size_t>(t.narrow)];
}

/// A piece of the host's memory: of `bytes`, where these are fewer.
class Piece {
 public:
  explicit Piece(std::uint64_t bytes);
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  Tensor memory_;
  std::span<std::byte> bytes_;
};

/// Gives `sink` x's elements.
void write_elements(const Tensor& x, const std::function<void(std::span<const std::byte>)>& sink);
/// Fills x with `stored` elements that lie at `offset`, by way of a piece that holds all of them as stored.dtype, or is
/// whole; the dtype becomes x's. Counts as a write of x. Throws FileError where there are too few bytes: x is filled in
/// part.
void read_elements(const Input& from, std::uint64_t offset, StoredType stored, const Tensor& x, const Piece& piece);
/// Reads all from byte `begin` to `end`, and gives each piece to `see`, with its place.
void read_pieces(const Input& from, std::uint64_t begin, std::uint64_t end,
                 const std::function<void(std::uint64_t at, std::span<const std::byte>)>& see);
/// Throws FileError where one of `bytes`, which lie at `at`, is neither 0 nor 1, as a bool must be.
void check_bools(const Input& from, std::uint64_t at, std::span<const std::byte> bytes);

}  // namespace bytetape
