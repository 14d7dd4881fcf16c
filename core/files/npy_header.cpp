#include "bytetape/core/files/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "bytetape/core/integers.h"

namespace bytetape {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t most_bytes = 65536;  // of the dict; ours take at most a few hundred
using Narrow = StoredType::Narrow;
constexpr std::array<std::pair<std::string_view, StoredType>, 11> types{{{"<f8", DType::f64},
                                                                         {"<f4", DType::f32},
                                                                         {"<f2", DType::f16},
                                                                         {"<i8", DType::i64},
                                                                         {"<i4", DType::i32},
                                                                         {"|u1", DType::u8},
                                                                         {"|b1", DType::boolean},
                                                                         {"|i1", Narrow::i8},
                                                                         {"<i2", Narrow::i16},
                                                                         {"<u2", Narrow::u16},
                                                                         {"<u4", Narrow::u32}}};

/// Parses the dict, from start to end.
class NpyReader {
 public:
  NpyReader(const Input& from, std::string_view text, std::uint64_t first) : from_(from), text_(text), first_(first) {}

  NpyHeader read() && {
    expect('{');
    while (!take('}')) {
      read_item();
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_spaces();
    check_here(at_ == text_.size(), "expected the end of the header, found ", found());
    for (std::size_t i = 0; i < seen_.size(); ++i) check_here(seen_[i], "expected a '", keys[i], "', found none");
    return std::move(header_);
  }

 private:
  static constexpr std::array<std::string_view, 3> keys{"descr", "fortran_order", "shape"};

  void read_item() {
    const std::string_view name = text();
    const auto key = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), name) - keys.begin());
    check_here(key < keys.size(), "expected descr, fortran_order or shape, found '", name, "'");
    check_here(!std::exchange(seen_[key], true), "expected '", name, "' once, found it again");
    expect(':');
    if (key == 0)
      read_descr();
    else if (key == 1)
      header_.fortran_order = truth();
    else
      read_shape();
  }

  void read_descr() {
    const std::string_view descr = text();
    const auto type = std::find_if(types.begin(), types.end(), [&](const auto& t) { return descr == t.first; });
    check_here(type != types.end(),
               "expected a descr of '<f8' '<f4' '<f2' '<i8' '<i4' '|u1' '|b1', or '|i1' '<i2' '<u2' '<u4', which are "
               "widened, found '",
               descr, "'");
    header_.stored = type->second;
  }

  void read_shape() {
    constexpr std::uint64_t most = std::uint64_t{1} << 59;  // so that bytes do not overflow
    std::uint64_t product = 1;
    expect('(');
    while (!take(')')) {
      check_here(header_.shape.size() < max_rank, "expected at most ", max_rank, " dimensions, found more");
      const std::uint64_t n = number();
      check_here(n == 0 || product <= most / n, "the sizes of its dimensions overflow at ", n);
      product *= std::max<std::uint64_t>(n, 1);
      header_.shape.push_back(static_cast<std::int64_t>(n));
      if (take(',')) continue;
      check_here(header_.shape.size() > 1, "expected ',' after a single size, found ", found());
      expect(')');
      break;
    }
  }

  std::string_view text() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    check_here(quote == '\'' || quote == '"', "expected a text in quotes, found ", found());
    const std::size_t end = text_.find(quote, at_ + 1);
    check_here(end != std::string_view::npos, "expected a text that ends, found ", found());
    const std::size_t start = std::exchange(at_, end + 1) + 1;
    return text_.substr(start, end - start);
  }

  bool truth() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    check_here(false, "expected True or False, found ", found());
    return false;
  }

  std::uint64_t number() {
    skip_spaces();
    std::uint64_t n = 0;
    const char* const start = text_.data() + at_;
    const auto [end, error] = std::from_chars(start, text_.data() + text_.size(), n);
    check_here(error == std::errc(), "expected a size, found ", found());
    at_ += static_cast<std::size_t>(end - start);
    return n;
  }

  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \n", at_), text_.size()); }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    const bool there = take(c);
    check_here(there, "expected '", c, "', found ", found());
  }
  /// The next characters, for messages.
  std::string found() const {
    return at_ < text_.size() ? "'" + std::string(text_.substr(at_, 20)) + "'" : "the end of the header";
  }
  template <class... Args>
  void check_here(bool ok, const Args&... args) const {
    from_.check_at(ok, first_ + at_, args...);
  }

  const Input& from_;
  std::string_view text_;
  std::uint64_t first_;
  std::size_t at_ = 0;
  std::array<bool, 3> seen_{};
  NpyHeader header_;
};

/// Checks the magic bytes and the version. Returns the size of the length field.
std::size_t read_prefix(const Input& from) {
  std::array<std::byte, magic.size() + 2> prefix;
  from.read_all(0, prefix);
  from.check_at(std::memcmp(prefix.data(), magic.data(), magic.size()) == 0, 0,
                "expected an .npy file, which begins with \\x93NUMPY, found other bytes");
  const int major = std::to_integer<int>(prefix[magic.size()]), minor = std::to_integer<int>(prefix[magic.size() + 1]);
  from.check_at(major >= 1 && major <= 3 && minor == 0, magic.size(), "expected version 1.0, 2.0 or 3.0, found ", major,
                ".", minor);
  return major == 1 ? 2 : 4;
}

}  // namespace

const char* npy_descr(StoredType t) {
  const auto type = std::find_if(types.begin(), types.end(), [&](const auto& entry) { return entry.second == t; });
  return type == types.end() ? nullptr : type->first.data();
}

NpyHeader parse_npy_header(const Input& from) {
  const std::size_t width = read_prefix(from);
  constexpr std::uint64_t length_at = magic.size() + 2;
  std::uint32_t length = 0;  // the field may have two bytes; the others stay 0
  from.read_all(length_at, std::as_writable_bytes(std::span(&length, 1)).first(width));
  const std::uint64_t first = length_at + width, left = from.bytes_from(first);
  from.check_at(length <= std::min(most_bytes, left), length_at, "expected a header of at most ",
                std::min(most_bytes, left), " bytes, found the length ", length);
  std::string text(length, ' ');
  from.read_all(first, std::as_writable_bytes(std::span(text)));
  NpyHeader header = NpyReader(from, text, first).read();
  header.bytes = first + length;
  return header;
}

std::string format_npy_header(DType dtype, const Shape& shape) {
  std::string dict =
      detail::concat("{'descr': '", npy_descr(dtype), "', 'fortran_order': False, 'shape': ", shape, ", }");
  constexpr std::size_t alignment = 64, around = magic.size() + 4 + 1;  // version and length, newline
  dict.resize(round_up(around + dict.size(), alignment) - around, ' ');
  dict += '\n';
  std::string header(magic);
  for (const std::size_t byte : {std::size_t{1}, std::size_t{0}, dict.size() & 0xff, dict.size() >> 8})
    header += static_cast<char>(byte);
  return header + dict;
}

}  // namespace bytetape
