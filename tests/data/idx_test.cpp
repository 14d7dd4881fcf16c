#include "bytetape/data/idx.h"
#include "bytetape/core/memory/stats.h"

#include <bit>
#include <random>

#include "bytetape/core/device/backend.h"
#include "bytetape/data/source.h"
#include "tests/data/files.h"

namespace bytetape::data {
namespace {

using testing::HasSubstr;

Bytes random_bytes(std::size_t n) {
  static std::mt19937 random(std::random_device{}());
  Bytes b(n);
  for (std::byte& v : b) v = static_cast<std::byte>(random());
  return b;
}

std::string parse_error(const Bytes& b) {
  return error_of<FileError>([&] { parse_idx(b, "some.idx"); });
}
std::string read_error(const std::filesystem::path& path) {
  const std::string message = error_of<FileError>([&] { read_idx(path); });
  EXPECT_THAT(message, HasSubstr("read_idx: " + path.string() + ": "));
  return message;
}

std::size_t allocations() { return memory::stats(Device::cpu()).allocations; }

TEST(Idx, ReadsBytes) {
  const Bytes elements = random_bytes(24);
  const Tensor x = parse_idx(idx_header(0x08, {2, 3, 4}) + elements, "x");
  EXPECT_EQ(x.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(x.dtype(), DType::u8);
  EXPECT_EQ(x.storage().role(), memory::Role::input);
  for (std::size_t i = 0; i < elements.size(); ++i)
    EXPECT_EQ(x.data<std::uint8_t>()[i], std::to_integer<std::uint8_t>(elements[i]));
}

TEST(Idx, ReadsEachTypeBigEndian) {
  const Tensor i8 = parse_idx(idx_header(0x09, {2}) + bytes({0x80, 0x7f}), "i8");
  EXPECT_EQ(i8.dtype(), DType::i32);
  EXPECT_EQ(i8.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-128, 127}));
  const Tensor i16 = parse_idx(idx_header(0x0b, {2}) + bytes({0xff, 0xfe, 0x01, 0x02}), "i16");
  EXPECT_EQ(i16.dtype(), DType::i32);
  EXPECT_EQ(i16.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-2, 258}));
  const Tensor i32 = parse_idx(idx_header(0x0c, {1, 2}) + bytes({0x80, 0, 0, 1, 1, 2, 3, 4}), "i32");
  EXPECT_EQ(i32.dtype(), DType::i32);
  EXPECT_EQ(i32.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-2147483647, 0x01020304}));
  const Tensor f32 = parse_idx(idx_header(0x0d, {1}) + bytes({0xc0, 0x49, 0x0f, 0xdb}), "f32");
  EXPECT_EQ(f32.dtype(), DType::f32);
  EXPECT_EQ(f32.item<float>(), std::bit_cast<float>(0xc0490fdbU));
  const Tensor f64 = parse_idx(idx_header(0x0e, {1}) + bytes({0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18}), "f64");
  EXPECT_EQ(f64.dtype(), DType::f64);
  EXPECT_EQ(f64.item<double>(), 3.141592653589793);
}

TEST(Idx, ReadsElementsPastOnePiece) {
  constexpr std::uint32_t n = 5003;
  const Bytes elements = random_bytes(4 * std::size_t{n});
  const Tensor x = parse_idx(idx_header(0x0c, {n}) + elements, "x");
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t expected = 0;
    for (std::size_t k = 0; k < 4; ++k) expected = expected << 8 | std::to_integer<std::uint32_t>(elements[4 * i + k]);
    ASSERT_EQ(x.data<std::int32_t>()[i], static_cast<std::int32_t>(expected));
  }
}

TEST(Idx, GzipIsToldByContentNotByName) {
  const TemporaryDir dir;
  const Bytes plain = idx_header(0x08, {300, 500}) + random_bytes(150000);
  const auto expected = parse_idx(plain, "x").to_vector<std::uint8_t>();
  for (const char* name : {"a-ubyte", "b-ubyte.gz"})
    for (const Bytes& content : {plain, gzip(plain)})
      EXPECT_EQ(read_idx(dir.write(name, content)).to_vector<std::uint8_t>(), expected) << name;
}

TEST(Idx, BytesThatWereReadAheadComeFirst) {
  const Bytes content = bytes({7, 31, 139, 5, 9});
  const auto source = inflated(open_memory(content), "x");
  Bytes read(7, std::byte{99});
  EXPECT_EQ(source->read(read.data(), 1), 1u);
  EXPECT_EQ(read[1], std::byte{99}) << "no more than was asked for";
  EXPECT_EQ(source->most(), 4u);
  EXPECT_EQ(source->read(&read[1], 2), 2u);
  EXPECT_EQ(source->read(&read[3], 4), 2u);
  EXPECT_EQ(Bytes(read.begin(), read.begin() + 5), content);
}

TEST(Idx, EmptyArraysHaveAShape) {
  EXPECT_EQ(parse_idx(idx_header(0x08, {0, 28, 28}), "x").shape(), (Shape{0, 28, 28}));
  EXPECT_EQ(parse_idx(gzip(idx_header(0x0d, {0})), "x").shape(), (Shape{0}));
}

TEST(Idx, WrongMagicIsQuoted) {
  EXPECT_THAT(parse_error(bytes({0x89, 0x50, 0x4e, 0x47, 1, 2})),
              testing::StrEq("parse_idx: some.idx: not an IDX file: expected it to begin with 00 00, a type "
                             "(08 09 0b 0c 0d or 0e) and a rank, found 89 50 4e 47"));
  EXPECT_THAT(parse_error(bytes({0, 0, 0x0a, 1, 0, 0, 0, 0})), HasSubstr("found 00 00 0a 01"));
  EXPECT_THAT(parse_error(bytes({0, 1, 0x08, 1, 0, 0, 0, 0})), HasSubstr("found 00 01 08 01"));
  EXPECT_THAT(parse_error(bytes({1, 0, 0x08, 1, 0, 0, 0, 0})), HasSubstr("found 01 00 08 01"));
  EXPECT_THAT(parse_error(bytes({0, 0, 8})), HasSubstr("found 00 00 08"));
  EXPECT_THAT(parse_error({}), HasSubstr("found nothing"));
}

TEST(Idx, RankIsOneToEight) {
  EXPECT_THAT(parse_error(idx_header(0x08, {})), HasSubstr("some.idx: expected 1 to 8 dimensions, found 0"));
  EXPECT_THAT(parse_error(idx_header(0x08, std::vector<std::uint32_t>(9, 1)) + random_bytes(1)), HasSubstr("found 9"));
  EXPECT_THAT(parse_error(bytes({0, 0, 8, 255})), HasSubstr("found 255"));
  EXPECT_EQ(parse_idx(idx_header(0x08, {1, 1, 1, 1, 1, 1, 1, 2}) + random_bytes(2), "x").rank(), 8);
}

TEST(Idx, HeaderCutOff) {
  Bytes header = idx_header(0x08, {2, 3});
  header.resize(9);
  EXPECT_THAT(parse_error(header), HasSubstr("expected 8 bytes for the sizes of 2 dimensions, found 5"));
}

TEST(Idx, SizesThatOverflow) {
  const std::vector<std::uint32_t> huge(8, 0xffffffff);
  EXPECT_THAT(parse_error(idx_header(0x0e, huge)), HasSubstr("sizes of its dimensions overflow"));
  std::vector<std::uint32_t> with_zero = huge;
  with_zero[7] = 0;
  EXPECT_THAT(parse_error(idx_header(0x08, with_zero)), HasSubstr("overflow"));
  std::swap(with_zero[0], with_zero[7]);
  EXPECT_THAT(parse_error(idx_header(0x08, with_zero)), HasSubstr("overflow"));
  EXPECT_THAT(parse_error(idx_header(0x0e, {0x80000000, 0x80000000})), HasSubstr("overflow"));
  EXPECT_THAT(parse_error(idx_header(0x08, {0x80000000, 0x80000000})),
              HasSubstr("expected 4611686018427387904 bytes of elements"));
}

TEST(Idx, NoLengthIsTrusted) {
  const std::size_t before = allocations();
  // A gigabyte claimed by a hundred bytes, plain and compressed.
  const Bytes liar = idx_header(0x08, {1u << 30}) + random_bytes(92);
  EXPECT_THAT(parse_error(liar), HasSubstr("expected 1073741824 bytes of elements for shape (1073741824,), found 92"));
  const Bytes packed = gzip(liar);
  EXPECT_THAT(parse_error(packed),
              HasSubstr("expected 1073741824 bytes of elements for shape (1073741824,), found at most " +
                        std::to_string(1032 * packed.size() - 8)));
  EXPECT_EQ(allocations(), before) << "a tensor was allocated on the word of a header";
}

TEST(Idx, ElementsMissingOrLeftOver) {
  const Bytes header = idx_header(0x0b, {2, 3});
  EXPECT_THAT(parse_error(header + random_bytes(11)),
              HasSubstr("expected 12 bytes of elements for shape (2, 3), found 11"));
  EXPECT_THAT(parse_error(header + random_bytes(13)),
              HasSubstr("expected 12 bytes of elements for shape (2, 3), found 13"));
  EXPECT_THAT(parse_error(gzip(header + random_bytes(11))),
              HasSubstr("expected 12 bytes of elements for shape (2, 3), found 11"));
  EXPECT_THAT(parse_error(gzip(header + random_bytes(13))),
              HasSubstr("expected 12 bytes of elements for shape (2, 3), found more"));
  EXPECT_THAT(parse_error(gzip(idx_header(0x08, {100}) + random_bytes(60))),
              HasSubstr("expected 100 bytes of elements for shape (100,), found 60"));
}

TEST(Idx, GzipThatEndsWithItsHeaderHoldsNoElements) {
  EXPECT_THAT(parse_error(gzip(idx_header(0x08, {5}))),
              HasSubstr("expected 5 bytes of elements for shape (5,), found at most 0"));
}

TEST(Idx, GzipBombIsStoppedAtTheDeclaredSize) {
  const Bytes bomb = gzip(idx_header(0x08, {64}) + Bytes(std::size_t{8} << 20));
  memory::reset_peaks(Device::cpu());
  const std::size_t before = memory::stats(Device::cpu()).requested.peak;
  EXPECT_THAT(parse_error(bomb), HasSubstr("expected 64 bytes of elements for shape (64,), found more"));
  EXPECT_EQ(memory::stats(Device::cpu()).requested.peak, before + 64);
}

TEST(Idx, GzipCutOff) {
  const Bytes whole = gzip(idx_header(0x08, {5000}) + random_bytes(5000));
  for (const std::size_t kept :
       {std::size_t{2}, std::size_t{10}, std::size_t{12}, whole.size() / 2, whole.size() - 1}) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
    const std::string message = parse_error(part);
    const bool too_small = kept * 1032 < 5008;
    EXPECT_TRUE(too_small || message.find("expected a complete gzip stream, found one that ends after " +
                                          std::to_string(kept) + " bytes") != std::string::npos)
        << message;
  }
}

TEST(Idx, GzipCorrupt) {
  Bytes packed = gzip(idx_header(0x08, {5000}) + random_bytes(5000));
  packed[packed.size() - 8] ^= std::byte{1};  // the checksum
  EXPECT_THAT(parse_error(packed), HasSubstr("some.idx: corrupt gzip data: incorrect data check"));
  packed[2] = std::byte{7};  // the compression method
  EXPECT_THAT(parse_error(packed), HasSubstr("corrupt gzip data: unknown compression method"));
}

TEST(Idx, GzipFollowedByOtherBytes) {
  const Bytes packed = gzip(idx_header(0x08, {5}) + random_bytes(5)) + random_bytes(3);
  EXPECT_THAT(parse_error(packed), HasSubstr("expected nothing after the gzip stream, found 3 bytes"));
  EXPECT_THAT(parse_error(packed + random_bytes(100'000)),  // more than is read at once
              HasSubstr("expected nothing after the gzip stream, found 100003 bytes"));
}

TEST(Idx, NothingStaysAllocatedAfterAnError) {
  const auto held = [] { return memory::stats(Device::cpu()).allocated.current; };
  const std::size_t before = held();
  parse_error(gzip(idx_header(0x08, {100}) + random_bytes(99)));
  EXPECT_EQ(held(), before);
}

TEST(Idx, FilesThatCannotBeRead) {
  const TemporaryDir dir;
  EXPECT_THAT(read_error(dir.path() / "missing"), HasSubstr("no such file"));
  EXPECT_THAT(read_error(dir.path()), HasSubstr("expected a file, found a directory"));
  EXPECT_THAT(read_error("/dev/null"), HasSubstr("expected a regular file"));
  EXPECT_THAT(read_error("/proc/self/mem"), HasSubstr("cannot be read: Input/output error"));
  const auto loop = dir.path() / "loop";
  std::filesystem::create_symlink(loop, loop);
  EXPECT_THAT(read_error(loop), HasSubstr("cannot be opened: Too many levels of symbolic links"));
  EXPECT_THAT(read_error(dir.write("empty", {})), HasSubstr("found nothing"));
}

}  // namespace
}  // namespace bytetape::data
