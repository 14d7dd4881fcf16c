#include "bytetape/data/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/data/source.h"

namespace bytetape::data {
namespace {

using memory::Op;

template <std::size_t N>
std::string hex(const std::array<std::byte, N>& bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%s%02x", i ? " " : "", std::to_integer<unsigned>(bytes[i]));
    text += digits;
  }
  return text.empty() ? "nothing" : text;
}

template <class T>
T from_big_endian(const std::byte* p) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  Bits bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bits = static_cast<Bits>(std::uint64_t{bits} << 8 | std::to_integer<unsigned>(p[i]));
  return std::bit_cast<T>(bits);
}

/// Calls f(stored element, returned element) with the types of the file's type code. Returns false if the code is
/// unknown.
template <class F>
bool visit_code(std::byte code, F&& f) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return f(std::uint8_t{}, std::uint8_t{}), true;
    case 0x09:
      return f(std::int8_t{}, std::int32_t{}), true;
    case 0x0b:
      return f(std::int16_t{}, std::int32_t{}), true;
    case 0x0c:
      return f(std::int32_t{}, std::int32_t{}), true;
    case 0x0d:
      return f(float{}, float{}), true;
    case 0x0e:
      return f(double{}, double{}), true;
    default:
      return false;
  }
}

struct Header {
  std::byte code{};
  Shape shape;
  std::uint64_t bytes = 0;  // stored bytes of all elements
};

Header read_header(Source& source, const std::string& name) {
  std::array<std::byte, 4> magic{};
  const std::size_t got = source.read(magic.data(), magic.size());
  Header h;
  h.code = magic[2];
  std::uint64_t element = 0;
  const bool known = visit_code(h.code, [&](auto stored, auto) { element = sizeof stored; });
  check<FileError>(
      got == magic.size() && magic[0] == std::byte{} && magic[1] == std::byte{} && known, name,
      ": not an IDX file: expected it to begin with 00 00, a type (08 09 0b 0c 0d or 0e) and a rank, found ",
      hex(magic, got));
  const auto rank = std::to_integer<int>(magic[3]);
  check<FileError>(rank >= 1 && rank <= max_rank, name, ": expected 1 to ", max_rank, " dimensions, found ", rank);

  std::array<std::byte, std::size_t{4} * max_rank> sizes;
  const std::size_t wanted = std::size_t{4} * static_cast<std::size_t>(rank);
  const std::size_t given = source.read(sizes.data(), wanted);
  check<FileError>(given == wanted, name, ": expected ", wanted, " bytes for the sizes of ", rank,
                   " dimensions, found ", given);
  bool empty = false;
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  h.bytes = element;
  for (int d = 0; d < rank; ++d) {
    const std::uint64_t n = from_big_endian<std::uint32_t>(&sizes[std::size_t{4} * static_cast<std::size_t>(d)]);
    empty = empty || n == 0;
    h.shape.push_back(static_cast<std::int64_t>(n));
    check<FileError>(n == 0 || h.bytes <= most / n, name, ": the sizes of its dimensions overflow: ", h.shape);
    h.bytes *= std::max<std::uint64_t>(n, 1);
  }
  if (empty) h.bytes = 0;
  return h;
}

/// Reads `n` elements in pieces that fit the stack. Returns the bytes read, which are fewer only at the end of the
/// file.
template <class Stored, class T>
std::uint64_t read_elements(Source& source, T* to, std::uint64_t n) {
  if constexpr (sizeof(Stored) == 1 && std::is_same_v<Stored, T>) {
    return source.read(reinterpret_cast<std::byte*>(to), n);
  } else {
    std::array<std::byte, 4096> piece;
    std::uint64_t bytes = 0;
    for (std::uint64_t done = 0; done < n;) {
      const std::uint64_t count = std::min<std::uint64_t>(n - done, piece.size() / sizeof(Stored));
      const std::size_t got = source.read(piece.data(), count * sizeof(Stored));
      bytes += got;
      if (got < count * sizeof(Stored)) break;
      for (std::uint64_t i = 0; i < count; ++i)
        to[done + i] = static_cast<T>(from_big_endian<Stored>(&piece[i * sizeof(Stored)]));
      done += count;
    }
    return bytes;
  }
}

Tensor read(std::unique_ptr<Source> packed, const std::string& name) {
  const std::unique_ptr<Source> source = inflated(std::move(packed), name);
  const Header h = read_header(*source, name);
  const std::uint64_t left = source->most();
  check<FileError>(source->is_exact() ? left == h.bytes : left >= h.bytes, name, ": expected ", h.bytes,
                   " bytes of elements for shape ", h.shape, ", found ", source->is_exact() ? "" : "at most ", left);
  Tensor result;
  visit_code(h.code, [&](auto stored, auto value) {
    using Stored = decltype(stored);
    using T = decltype(value);
    result = empty(h.shape, dtype_of<T>, Device::cpu(), memory::Role::input);
    const std::uint64_t got = read_elements<Stored>(*source, result.data<T>(), h.bytes / sizeof(Stored));
    check<FileError>(got == h.bytes, name, ": expected ", h.bytes, " bytes of elements for shape ", h.shape, ", found ",
                     got);
  });
  std::byte extra;
  check<FileError>(source->read(&extra, 1) == 0, name, ": expected ", h.bytes, " bytes of elements for shape ", h.shape,
                   ", found more");
  return result;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path) {
  const Op<"read_idx"> op;
  return read(open_file(path), path.string());
}

Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name) {
  const Op<"parse_idx"> op;
  return read(open_memory(bytes), name);
}

}  // namespace bytetape::data
