// What is no safetensors file is refused, with the byte, what was expected and what was found.
#include "bytetape/core/files/safetensors_header.h"

#include <cstring>

#include "bytetape/core/factories.h"
#include "bytetape/core/files/safetensors.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string file_of(const std::string& json, const std::string& data = "") {
  const std::uint64_t length = json.size();
  std::string bytes(sizeof length, ' ');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json + data;
}
SafetensorsFile parse(const std::string& bytes) {
  return SafetensorsFile(memory_input(std::as_bytes(std::span(bytes)), "some.safetensors"));
}
std::string error_of(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const FileError& e) {
    EXPECT_THAT(e.what(), StartsWith("some.safetensors: at byte "));
    return e.what();
  }
  ADD_FAILURE() << "was read: " << bytes;
  return {};
}
std::string json_error(const std::string& json, const std::string& data = "") { return error_of(file_of(json, data)); }

/// A header of one tensor "a".
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(SafetensorsHeader, IsRead) {
  const std::string json = R"( "__metadata__" : {"by": "hand", "empty": ""},
    "w\u00e9\ud83d\ude00": {"shape": [2, 0], "data_offsets": [2, 2], "dtype": "F64"},
    "a": {"dtype": "U8", "shape": [2, 1, 1], "data_offsets": [0, 2]},
    "": {"data_offsets": [2, 10], "dtype": "I64", "shape": []} }      )";
  const std::string bytes = file_of("{" + json, std::string("\x05\x06\x01\0\0\0\0\0\0\0", 10));
  const SafetensorsFile file = parse(bytes);
  EXPECT_EQ(file.metadata(), (Metadata{{"by", "hand"}, {"empty", ""}}));
  const NamedTensors all = file.load(Device::cpu(), memory::Role::temporary);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].first, "a");
  EXPECT_EQ(all[0].second.shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(all[0].second.to_vector<int>(), (std::vector<int>{5, 6}));
  EXPECT_EQ(all[1].first, "w\u00e9\U0001F600");
  EXPECT_EQ(all[1].second.shape(), (Shape{2, 0}));
  EXPECT_EQ(all[2].first, "");
  EXPECT_EQ(all[2].second.item<int>(), 1);
}

TEST(SafetensorsHeader, HasAChecksumOnlyWhereItsDigitsEnd) {
  const std::string json = format_safetensors_header({});
  const std::size_t at = *find_checksum(json), end = at + std::strlen(checksum_placeholder);
  EXPECT_EQ(json.substr(at, end - at), checksum_placeholder);
  EXPECT_FALSE(find_checksum(std::string_view(json).substr(0, end)));
  EXPECT_TRUE(find_checksum(std::string_view(json).substr(0, end + 1)));
  std::string other = json;
  other[end] = '0';
  EXPECT_FALSE(find_checksum(other));
  other = json;
  other[2] = 'x';
  EXPECT_FALSE(find_checksum(other));
}

/// The elements' bytes, little-endian.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), ' ');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(SafetensorsHeader, IntegersThatNoDtypeHasAreWidened) {
  const auto check = [](const std::string& name, const auto& values, DType dtype) {
    const std::string data = bytes_of(values), offsets = "[0," + std::to_string(data.size()) + "]";
    const std::string bytes = file_of(entry(name, "[2,3]", offsets), data);
    const SafetensorsFile file = parse(bytes);
    EXPECT_EQ(file.tensors()[0].dtype, dtype) << name;
    EXPECT_THAT(format_safetensors_header({file.tensors(), {}}), HasSubstr("\"dtype\":\"" + name + "\""));
    const Tensor x = file.load(Device::cpu(), memory::Role::temporary)[0].second;
    EXPECT_EQ(x.dtype(), dtype) << name;
    const std::vector<std::int64_t> expected(values.begin(), values.end());
    EXPECT_EQ(x.to_vector<std::int64_t>(), expected) << name;
    const Tensor y = zeros({3, 2}, DType::f64), turned = y.alias({2, 3}, {1, 2}, 0);
    file.load_into({{"a", turned}}, true);
    EXPECT_EQ(turned.to_vector<double>(), std::vector<double>(values.begin(), values.end())) << name;
  };
  check("I8", std::vector<std::int8_t>{-128, -1, 0, 1, 127, 5}, DType::i32);
  check("I16", std::vector<std::int16_t>{-32768, -1, 0, 1, 32767, 300}, DType::i32);
  check("U16", std::vector<std::uint16_t>{65535, 32768, 0, 1, 255, 300}, DType::i32);
  check("U32", std::vector<std::uint32_t>{4294967295u, 2147483648u, 0, 1, 255, 300}, DType::i64);
  const std::string one = file_of(entry("I8", "[]", "[0,1]"), "\xfe");
  EXPECT_EQ(parse(one).load(Device::cpu(), memory::Role::temporary)[0].second.item<int>(), -2) << "a file of one byte";
  EXPECT_THAT(json_error(entry("I16", "[2]", "[0,2]"), "12"),
              HasSubstr("tensor 'a': expected 4 bytes for I16(2,), found data_offsets [0, 2]"));
}

// The piece is one of the widened elements, which take more than the file.
TEST(SafetensorsHeader, WidenedElementsMayTakeSeveralPieces) {
  std::vector<std::int8_t> values(3 << 20);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int8_t>(i * 7 + i / 1000);
  const std::string n = std::to_string(values.size());
  const std::string file =
      file_of(entry("I8", "[3," + std::to_string(1 << 20) + "]", "[0," + n + "]"), bytes_of(values));
  const Tensor x = parse(file).load(Device::cpu(), memory::Role::temporary)[0].second;
  EXPECT_TRUE(x.to_vector<std::int32_t>() == std::vector<std::int32_t>(values.begin(), values.end()));
}

TEST(SafetensorsHeader, MayBeEmpty) {
  EXPECT_TRUE(parse(file_of("{}")).tensors().empty());
  EXPECT_TRUE(parse(file_of("{}   ")).metadata().empty());
}

TEST(SafetensorsHeader, LengthsThatLie) {
  EXPECT_THAT(error_of(""), HasSubstr("at byte 0: expected 8 bytes, found 0"));
  EXPECT_THAT(error_of("1234567"), HasSubstr("at byte 0: expected 8 bytes, found 7"));
  std::string bytes = file_of("{}");
  bytes[0] = 3;
  EXPECT_THAT(
      error_of(bytes),
      HasSubstr("at byte 0: the file is cut off, or not a safetensors file: expected a header of 3 bytes, found 2 to "
                "the end of the file"));
  bytes[7] = 0x7f;
  EXPECT_THAT(error_of(bytes),
              HasSubstr("not a safetensors file: expected a header of at most 100000000 bytes, found the length 915"));
  const std::uint64_t all = ~std::uint64_t{0};
  std::memcpy(bytes.data(), &all, sizeof all);
  EXPECT_THAT(error_of(bytes), HasSubstr("found the length 18446744073709551615"));
}

TEST(SafetensorsHeader, WhatIsNoJson) {
  EXPECT_THAT(json_error(""), HasSubstr("at byte 8: not a safetensors file: expected a header that begins with '{'"));
  EXPECT_THAT(json_error(" {}"), HasSubstr("begins with '{'"));
  EXPECT_THAT(json_error("[]"), HasSubstr("begins with '{'"));
  for (const char* json : {"{", "{}}", "{} {}", "{'a':1}", R"({"a"})", R"({"a":})", R"({"__metadata__":{}, })",
                           "{\"\xff\":{}}", R"({"a":{"shape":[1,]}})", R"({"\ud800":{}})", "{}\n\\"})
    EXPECT_THAT(json_error(json), HasSubstr("expected JSON: ")) << json;
  EXPECT_LT(json_error(R"({"a":)" + std::string(100000, 'x') + "}").size(), 400u);
}

TEST(SafetensorsHeader, NothingHidesBehindAZeroByte) {
  EXPECT_THAT(json_error(std::string("{}\0,no", 6)), HasSubstr("at byte 10: expected JSON, found a zero byte"));
}

TEST(SafetensorsHeader, WhatIsQuotedFitsATerminal) {
  const std::string name = "\\u001b[31m" + std::string(100000, 'x');
  EXPECT_THAT(json_error(R"({")" + name + R"(":{"a":1}})"), HasSubstr("tensor '\\x1b[31mxxx"));
  EXPECT_LT(json_error(R"({")" + name + R"(":{"a":1}})").size(), 700u);
}

TEST(SafetensorsHeader, JsonOfAnotherForm) {
  const auto refused = [](const std::string& json, const std::string& words) {
    EXPECT_THAT(json_error(json), HasSubstr(words)) << json;
  };
  refused(R"({"a":1})", "expected an object, found the number 1");
  refused(R"({"a":"b"})", "expected an object, found the text 'b'");
  refused(R"({"a":[]})", "expected an object, found a list");
  refused(R"({"a":null})", "expected an object, found null");
  refused(R"({"__metadata__":{"a":1}})", "expected a text as metadata, found the number 1");
  refused(R"({"__metadata__":{"a":{"b":"c"}}})", "expected a text as metadata, found an object");
  refused(R"({"__metadata__":{"a":["b"]}})", "expected a text as metadata, found a list");
  refused(R"({"__metadata__":{"a":null}})", "found null");
  refused(R"({"__metadata__":[]})", "expected an object, found a list");
  refused(R"({"a":{"dtype":4}})", "expected the name of a dtype, found the number 4");
  refused(R"({"a":{"dtype":["F32"]}})", "expected the name of a dtype, found a list");
  refused(R"({"a":{"shape":"F32"}})", "expected a list of numbers, found the text 'F32'");
  refused(R"({"a":{"shape":{}}})", "expected a list of numbers, found an object");
  refused(R"({"a":{"shape":[[1]]}})", "expected a non-negative integer, found a list");
  refused(R"({"a":{"shape":["1"]}})", "expected a non-negative integer, found the text '1'");
  refused(R"({"a":{"shape":[-1]}})", "expected a non-negative integer, found the number -1");
  refused(R"({"a":{"shape":[1.0]}})", "found the number 1.0");
  refused(R"({"a":{"shape":[1e3]}})", "found the number 1e3");
  refused(R"({"a":{"shape":[18446744073709551616]}})", "found the number 18446744073709551616");
  refused(R"({"a":{"shape":[true]}})", "found true");
  refused(R"({"a":{"shape":[false]}})", "found false");
  refused(R"({"a":{"size":[1]}})", "tensor 'a': expected dtype, shape and data_offsets, found 'size'");
  refused(R"({"a":{}})", "tensor 'a': expected a dtype, found none");
  refused(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "tensor 'a': expected a shape, found none");
  refused(R"({"a":{"dtype":"F32","shape":[1]}})", "tensor 'a': expected a data_offsets, found none");
}

// So that neither the number of elements nor that of bytes overflows.
TEST(SafetensorsHeader, SizesAreAtMostTwoToThe59) {
  EXPECT_EQ(parse(file_of(entry("F64", "[0,576460752303423488]", "[0,0]"))).tensors()[0].shape.back(),
            std::int64_t{1} << 59);
  for (const char* shape : {"[0,576460752303423489]", "[576460752303423489]", "[2,288230376151711745]"})
    EXPECT_THAT(json_error(entry("F64", shape, "[0,0]")), HasSubstr("the sizes of its dimensions overflow at "))
        << shape;
}

TEST(SafetensorsHeader, NamesThatComeTwice) {
  const std::string a = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(json_error("{" + a + "," + a + "}"), HasSubstr("expected each name once, found 'a' again"));
  EXPECT_THAT(json_error(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("found '__metadata__' again"));
  EXPECT_THAT(json_error(R"({"__metadata__":{"k":"1","k":"1"}})"),
              HasSubstr("expected the metadata 'k' once, found it again"));
  EXPECT_THAT(json_error(R"({"a":{"dtype":"U8","dtype":"U8"}})"), HasSubstr("expected 'dtype' once, found it again"));
}

TEST(SafetensorsHeader, DTypesAndShapes) {
  EXPECT_THAT(
      json_error(entry("F8_E4M3", "[1]", "[0,1]"), "x"),
      HasSubstr(
          "tensor 'a': expected a dtype of F64 F32 BF16 F16 I64 I32 U8 BOOL, or I8 I16 U16 U32, which are widened, "
          "found 'F8_E4M3'"));
  EXPECT_THAT(json_error(entry("U64", "[1]", "[0,8]"), "12345678"), HasSubstr("found 'U64'"));
  EXPECT_THAT(json_error(entry("f32", "[1]", "[0,4]"), "1234"), HasSubstr("found 'f32'"));
  EXPECT_THAT(json_error(entry("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), "x"),
              HasSubstr("expected at most 8 dimensions, found more"));
  EXPECT_THAT(json_error(entry("U8", "[4294967296,4294967296]", "[0,0]")),
              HasSubstr("the sizes of its dimensions overflow at 4294967296"));
  EXPECT_THAT(json_error(entry("U8", "[0,9223372036854775807]", "[0,0]")), HasSubstr("overflow"));
  EXPECT_THAT(json_error(entry("F64", "[1152921504606846976]", "[0,0]")), HasSubstr("overflow"));
  for (const char* shape :
       {"[0,1099511627776,1099511627776]", "[1099511627776,0,1099511627776]", "[1099511627776,1099511627776,0]"}) {
    const std::string json = entry("F32", shape, "[0,0]");
    EXPECT_THAT(json_error(json), HasSubstr("at byte " + std::to_string(8 + json.find(']') + 1) +
                                            ": tensor 'a': the sizes of its dimensions overflow at 1099511627776"));
  }
  EXPECT_THAT(json_error(entry("F64", "[576460752303423488]", "[0,0]")),
              HasSubstr("expected 4611686018427387904 bytes for F64(576460752303423488,), found data_offsets [0, 0]"));
}

TEST(SafetensorsHeader, EmptyTensorsMayBeListedAnywhere) {
  const std::string full = R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})",
                    first = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})",
                    last = R"("c":{"dtype":"F32","shape":[3,0],"data_offsets":[2,2]})";
  for (const std::string& json : {full + "," + first + "," + last, last + "," + full + "," + first})
    EXPECT_EQ(parse(file_of("{" + json + "}", "12")).tensors().size(), 3u) << json;
}

TEST(SafetensorsHeader, OffsetsThatDoNotFit) {
  EXPECT_THAT(json_error(entry("F32", "[2]", "[0,4]"), "1234"),
              HasSubstr("tensor 'a': expected 8 bytes for F32(2,), found data_offsets [0, 4]"));
  EXPECT_THAT(json_error(entry("U8", "[2]", "[4,2]"), "1234"), HasSubstr("found data_offsets [4, 2]"));
  EXPECT_THAT(json_error(entry("U8", "[2]", "[18446744073709551615,1]"), "12"), HasSubstr("expected 2 bytes"));
  EXPECT_THAT(json_error(entry("U8", "[2]", "[0]"), "12"), HasSubstr("expected two data_offsets, found 1"));
  EXPECT_THAT(json_error(entry("U8", "[2]", "[0,2,4]"), "12"),
              HasSubstr("expected at most 2 data_offsets, found more"));
  const std::string header = entry("U8", "[4]", "[0,4]");
  const auto at = [&](std::size_t bytes) { return std::to_string(8 + header.size() + bytes); };
  EXPECT_THAT(json_error(header, "123"),
              HasSubstr("at byte " + at(3) + ": the file is cut off: expected " + at(4) + " bytes, found " + at(3)));
  EXPECT_THAT(json_error(entry("U8", "[2]", "[1,3]"), "123"),
              HasSubstr("expected data_offsets from 0, where the tensor before it ends, found [1, 3]: there is a gap"));
  const std::string trailing = json_error(entry("U8", "[2]", "[0,2]"), "12345");
  EXPECT_THAT(trailing, HasSubstr("expected the end of the file after the last tensor, found 3 more bytes"));
  EXPECT_THAT(trailing, HasSubstr("at byte " + std::to_string(8 + entry("U8", "[2]", "[0,2]").size() + 2)));
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"b":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"c":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_THAT(json_error(two("[0,4]", "[2,6]"), "123456"),
              HasSubstr("tensor 'c': expected data_offsets from 4, where the tensor before it ends, found [2, 6]: they "
                        "overlap"));
  EXPECT_THAT(json_error(two("[5,9]", "[0,4]"), "123456789"), HasSubstr("tensor 'b': expected data_offsets from 4"));
  EXPECT_THAT(json_error(two("[0,4]", "[0,4]"), "1234"), HasSubstr("they overlap"));
}

TEST(SafetensorsHeader, BoolsAreNothingElse) {
  EXPECT_EQ(parse(file_of(entry("BOOL", "[2]", "[0,2]"), {"\1\0", 2})).tensors().size(), 1u);
  const std::string json = entry("BOOL", "[3]", "[0,3]");
  EXPECT_THAT(json_error(json, {"\1\0\2", 3}),
              HasSubstr("at byte " + std::to_string(8 + json.size() + 2) + ": expected a bool, 0 or 1, found 2"));
}

TEST(SafetensorsHeader, CutOffAnywhere) {
  const std::string whole = file_of(entry("U8", "[3]", "[0,3]"), "123");
  for (std::size_t n = 0; n < whole.size(); ++n) error_of(whole.substr(0, n));
  EXPECT_EQ(parse(whole).tensors().size(), 1u);
}

}  // namespace
}  // namespace bytetape
