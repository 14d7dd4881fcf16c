#include "bytetape/core/files/elements.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "bytetape/core/device/transfer.h"

namespace bytetape {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian elements");

/// Calls f(block) for blocks of at most `most` elements of x, in row-major order.
void for_each_block(const Tensor& x, std::int64_t most, const std::function<void(const Tensor&)>& f) {
  if (x.numel() == 0) return;
  if (x.numel() <= most) return f(x);
  Shape row = x.shape();
  Strides steps = x.strides();
  row.erase(0);
  steps.erase(0);
  const std::int64_t count = x.shape()[0], step = x.strides()[0], each = numel(row);
  const auto start = [&](std::int64_t i) { return x.storage_offset() + i * step; };
  if (each > most) {
    for (std::int64_t i = 0; i < count; ++i) for_each_block(x.alias(row, steps, start(i)), most, f);
    return;
  }
  Shape rows = x.shape();
  for (std::int64_t i = 0; i < count; i += rows[0]) {
    rows[0] = std::min(most / each, count - i);
    f(x.alias(rows, x.strides(), start(i)));
  }
}

/// Calls f(block, staged, bytes) for blocks of x. `staged` is a row-major view of the block in `piece`, with `dtype`.
template <class F>
void for_each_piece(const Tensor& x, DType dtype, const Piece& piece, const F& f) {
  const auto most = static_cast<std::int64_t>(piece.bytes().size() / size_of(dtype));
  for_each_block(x, most, [&](const Tensor& block) {
    const View staged(piece.bytes().data(), dtype, Device::cpu(), block.shape(), contiguous_strides(block.shape()));
    f(block, staged, piece.bytes().first(static_cast<std::size_t>(block.numel()) * size_of(dtype)));
  });
}

/// Widens elements from first to last, so that `from` may be the end of `to`: each is read before it is overwritten.
template <class From, class To>
void widen(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From narrow;
    std::memcpy(&narrow, from.data() + i * sizeof(From), sizeof(From));
    const To wide = narrow;
    std::memcpy(to.data() + i * sizeof(To), &wide, sizeof(To));
  }
}
void widen(StoredType stored, std::span<const std::byte> from, std::span<std::byte> to) {
  switch (stored.narrow) {
    case StoredType::Narrow::none:
      return;
    case StoredType::Narrow::i8:
      return widen<std::int8_t, std::int32_t>(from, to);
    case StoredType::Narrow::i16:
      return widen<std::int16_t, std::int32_t>(from, to);
    case StoredType::Narrow::u16:
      return widen<std::uint16_t, std::int32_t>(from, to);
    case StoredType::Narrow::u32:
      return widen<std::uint32_t, std::int64_t>(from, to);
  }
}

}  // namespace

Piece::Piece(std::uint64_t bytes)
    : memory_(empty(std::min<std::uint64_t>(bytes, 4 << 20), DType::u8, Device::cpu(), memory::Role::workspace)),
      bytes_(std::as_writable_bytes(std::span(memory_.data<std::uint8_t>(), memory_.nbytes()))) {}

void write_elements(const Tensor& x, const std::function<void(std::span<const std::byte>)>& sink) {
  for_each_piece(x, x.dtype(), Piece(x.nbytes()),
                 [&](const Tensor& block, const View& staged, std::span<const std::byte> bytes) {
                   copy_across(block.read(), staged);
                   sink(bytes);
                 });
}

void read_elements(const Input& from, std::uint64_t offset, StoredType stored, const Tensor& x, const Piece& piece) {
  x.storage().bump_version();
  for_each_piece(x, stored.dtype, piece, [&](const Tensor& block, const View& staged, std::span<std::byte> bytes) {
    const auto as_stored = bytes.last(static_cast<std::size_t>(block.numel()) * size_of(stored));
    from.read_all(offset, as_stored);
    offset += as_stored.size();
    widen(stored, as_stored, bytes);
    copy_across(staged, block.write());
  });
}

void read_pieces(const Input& from, std::uint64_t begin, std::uint64_t end,
                 const std::function<void(std::uint64_t, std::span<const std::byte>)>& see) {
  const Piece piece(end - begin);
  for (std::uint64_t at = begin; at < end; at += piece.bytes().size()) {
    const auto bytes = piece.bytes().first(std::min<std::uint64_t>(end - at, piece.bytes().size()));
    from.read_all(at, bytes);
    see(at, bytes);
  }
}

void check_bools(const Input& from, std::uint64_t at, std::span<const std::byte> bytes) {
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (wrong != bytes.end())
    from.check_at(false, at + static_cast<std::uint64_t>(wrong - bytes.begin()), "expected a bool, 0 or 1, found ",
                  std::to_integer<int>(*wrong));
}

}  // namespace bytetape
