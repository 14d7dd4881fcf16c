#include "bytetape/core/files/npy.h"

#include <array>
#include <cstring>

#include "bytetape/bytetape.h"
#include "bytetape/core/files/npy_header.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

using test::content_of;
using test::random_tensor;
using testing::HasSubstr;
using testing::StartsWith;

class Npy : public testing::Test {
 protected:
  test::TemporaryDir dir_;
  const std::string path_ = dir_ / "some.npy";
};

/// A file of version 1.0 with this dict.
std::string file_of(const std::string& dict, const std::string& elements = "") {
  const std::string length{static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + length + dict + elements;
}
Tensor parse(const std::string& bytes) { return parse_npy(std::as_bytes(std::span(bytes)), "some.npy"); }
std::string error_of(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const FileError& e) {
    EXPECT_THAT(e.what(), StartsWith("parse_npy: some.npy: at byte "));
    return e.what();
  }
  ADD_FAILURE() << "was read: " << bytes;
  return {};
}
std::string dict_error(const std::string& dict, const std::string& elements = "") {
  return error_of(file_of(dict, elements));
}
std::string dict_of(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "}";
}

TEST_F(Npy, RoundTripOfEveryDtypeAndRank) {
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean})
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{0, 3}, Shape{2, 1, 3, 1, 2, 1, 2, 5}}) {
      const Tensor x = to(random_tensor(shape, DType::f32) * random_tensor(shape, DType::f32), t);
      save_npy(path_, x);
      const Tensor y = load_npy(path_, Device::cpu(), memory::Role::input);
      EXPECT_EQ(y.dtype(), t);
      EXPECT_EQ(y.shape(), shape);
      EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>());
      EXPECT_TRUE(x.numel() == 0 || y.storage().role() == memory::Role::input);
    }
}

TEST_F(Npy, FilesAreRowMajorWhateverTheLayout) {
  const Tensor x = random_tensor({2, 3, 4, 5});
  save_npy(path_, x);
  const std::string row_major = content_of(path_);
  EXPECT_EQ(row_major.size() % 64, 120 * 8 % 64);
  save_npy(path_, channels_last(x));
  EXPECT_EQ(content_of(path_), row_major);
}

TEST_F(Npy, MoreThanOnePieceInFortranOrder) {
  const Tensor x = rand({700, 3, 900});
  save_npy(path_, permute(x, {2, 1, 0}));
  std::string bytes = content_of(path_);
  const std::string c = "'fortran_order': False, 'shape': (900, 3, 700), ",
                    fortran = "'fortran_order': True, 'shape': (700, 3, 900),  ";
  ASSERT_NE(bytes.find(c), std::string::npos);
  bytes.replace(bytes.find(c), c.size(), fortran);
  const Tensor y = parse(bytes);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_TRUE(y.to_vector<float>() == x.to_vector<float>());
}

TEST_F(Npy, DictsAsPythonMayWriteThem) {
  for (const char* dict : {"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }   \n",
                           R"({"shape":(2,),"fortran_order":True,"descr":"|u1"})",
                           "{ 'shape' : ( 2 , ) , 'descr' : '|u1' , 'fortran_order' : False }"})
    EXPECT_EQ(parse(file_of(dict, "\5\6")).to_vector<int>(), (std::vector<int>{5, 6})) << dict;
  EXPECT_EQ(parse(file_of(dict_of("|u1", "()"), "\7")).item<int>(), 7);
  EXPECT_EQ(parse(file_of(dict_of("|u1", "(1,2)"), "\5\6")).shape(), (Shape{1, 2}));
  EXPECT_EQ(parse(file_of(dict_of("<f8", "(0, 3)"))).shape(), (Shape{0, 3}));
}

TEST_F(Npy, IntegersThatNoDtypeHasAreWidened) {
  const auto check = [](const char* descr, const auto& values, DType dtype) {
    const auto* first = reinterpret_cast<const char*>(values.data());
    const std::string data(first, values.size() * sizeof values[0]);
    const Tensor x = parse(file_of(dict_of(descr, "(2, 2)"), data));
    EXPECT_EQ(x.dtype(), dtype) << descr;
    EXPECT_EQ(x.to_vector<std::int64_t>(), std::vector<std::int64_t>(values.begin(), values.end())) << descr;
    EXPECT_THAT(dict_error(dict_of(descr, "(2, 2)"), data + "x"), HasSubstr("expected " + std::to_string(data.size())));
  };
  check("|i1", std::vector<std::int8_t>{-128, -1, 0, 127}, DType::i32);
  check("<i2", std::vector<std::int16_t>{-32768, -1, 300, 32767}, DType::i32);
  check("<u2", std::vector<std::uint16_t>{65535, 32768, 300, 1}, DType::i32);
  check("<u4", std::vector<std::uint32_t>{4294967295u, 2147483648u, 300, 1}, DType::i64);
}

TEST_F(Npy, WhatIsNoNpyFile) {
  EXPECT_THAT(error_of(""), HasSubstr("at byte 0: expected 8 bytes, found 0"));
  EXPECT_THAT(error_of("\x93NUMPZ\x01\x01"), HasSubstr("expected an .npy file, which begins with \\x93NUMPY"));
  for (const auto& [version, text] : {std::pair(std::string("\x00\x00", 2), "0.0"),
                                      {std::string("\x04\x00", 2), "4.0"},
                                      {std::string("\x01\x01", 2), "1.1"}})
    EXPECT_THAT(error_of("\x93NUMPY" + version),
                HasSubstr(std::string("at byte 6: expected version 1.0, 2.0 or 3.0, found ") + text));
  EXPECT_THAT(error_of(std::string("\x93NUMPY\x01\x00\x05", 9)), HasSubstr("at byte 8: expected 2 bytes, found 1"));
  EXPECT_THAT(error_of(std::string("\x93NUMPY\x01\x00\x03\x00{}", 12)),
              HasSubstr("at byte 8: expected a header of at most 2 bytes, found the length 3"));
  EXPECT_THAT(error_of(std::string("\x93NUMPY\x02\x00\x01\x00\x01\x00", 12) + std::string(70'000, ' ')),
              HasSubstr("at byte 8: expected a header of at most 65536 bytes, found the length 65537"));
  EXPECT_THAT(error_of(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)),
              HasSubstr("at byte 8: expected a header of at most 2 bytes, found the length 4294967295"));
}

TEST_F(Npy, DictsThatAreNone) {
  const auto refused = [](const std::string& dict, const std::string& words) {
    EXPECT_THAT(dict_error(dict), HasSubstr(words)) << dict;
  };
  refused("", "at byte 10: expected '{', found the end of the header");
  refused("[]", "at byte 10: expected '{', found '[]'");
  refused("{}", "expected a 'descr', found none");
  refused("{'descr': '<f4', 'shape': ()}", "expected a 'fortran_order', found none");
  refused("{'descr': '<f4', 'fortran_order': False}", "expected a 'shape', found none");
  refused("{'descr': '<f4', 'descr': '<f4'}", "expected 'descr' once, found it again");
  refused("{'type': '<f4'}", "expected descr, fortran_order or shape, found 'type'");
  refused("{descr: '<f4'}", "expected a text in quotes, found 'descr: '<f4'}'");
  refused("{'descr", "expected a text that ends, found ''descr'");
  refused("{'descr' '<f4'}", "expected ':', found ''<f4'}'");
  refused("{'descr': '<f4' 'shape': ()}", "expected '}', found");
  refused("{'descr': [('a', '<f4')]}", "expected a text in quotes, found '[('a', '<f4')]}'");
  refused("{'fortran_order': 0}", "expected True or False, found '0}'");
  refused("{'shape': [2]}", "expected '(', found '[2]}'");
  refused("{'shape': (2)}", "expected ',' after a single size, found ')}'");
  refused("{'shape': (-2,)}", "expected a size, found '-2,)}'");
  refused("{'shape': (2.5,)}", "found '.5,)}'");
  refused("{'shape': (99999999999999999999,)}", "expected a size, found '99999");
  refused("{'shape': (,)}", "expected a size, found ',)}'");
  refused(dict_of("<f4", "(0,)") + "x", "expected the end of the header, found 'x'");
}

TEST_F(Npy, DtypesAndShapes) {
  for (const char* shape : {"(0, 1099511627776, 1099511627776)", "(1099511627776, 1099511627776, 0)"})
    EXPECT_THAT(dict_error(dict_of("<f4", shape)), HasSubstr("overflow at 1099511627776")) << shape;
  for (const char* descr : {">f4", "=f4", "<c8", "<u8", "|S3", "|O", "f4", "<V2"})
    EXPECT_THAT(
        dict_error(dict_of(descr, "(0,)")),
        HasSubstr(std::string("expected a descr of '<f8' '<f4' '<f2' '<i8' '<i4' '|u1' '|b1', or '|i1' '<i2' '<u2' "
                              "'<u4', which are widened, found '") +
                  descr + "'"));
  EXPECT_THAT(dict_error(dict_of("|u1", "(1,1,1,1,1,1,1,1,1)"), "x"), HasSubstr("at most 8 dimensions, found more"));
  EXPECT_THAT(dict_error(dict_of("|u1", "(4294967296, 4294967296)")), HasSubstr("overflow at 4294967296"));
  EXPECT_THAT(dict_error(dict_of("|u1", "(0, 9223372036854775808)")), HasSubstr("overflow"));
  EXPECT_THAT(dict_error(dict_of("|u1", "(0, 576460752303423489)")), HasSubstr("overflow at 576460752303423489"));
  EXPECT_THAT(dict_error(dict_of("|u1", "(0, 576460752303423488)"), "x"), HasSubstr("expected 0 bytes"))
      << "the largest size";
}

TEST_F(Npy, ElementsMissingLeftOverOrWrong) {
  const std::string dict = dict_of("<i4", "(2, 3)");
  const std::string at = "at byte " + std::to_string(10 + dict.size());
  EXPECT_THAT(dict_error(dict, std::string(23, 'x')),
              HasSubstr(at + ": expected 24 bytes of elements for '<i4'(2, 3), found 23"));
  EXPECT_THAT(dict_error(dict_of("<i2", "(2, 3)"), std::string(11, 'x')),
              HasSubstr(": expected 12 bytes of elements for '<i2'(2, 3), found 11"));
  EXPECT_THAT(dict_error(dict, std::string(25, 'x')), HasSubstr("found 25"));
  const std::size_t before = test::statistics().allocations;
  EXPECT_THAT(dict_error(dict_of("<i4", "(1073741824,)"), "1234"), HasSubstr("expected 4294967296 bytes"));
  EXPECT_EQ(test::statistics().allocations, before) << "allocated on the word of a header";
  const std::string bools = dict_of("|b1", "(3,)");
  EXPECT_THAT(dict_error(bools, {"\0\1\2", 3}),
              HasSubstr("at byte " + std::to_string(10 + bools.size() + 2) + ": expected a bool, 0 or 1, found 2"));
}

TEST_F(Npy, CutOffAnywhere) {
  const std::string whole = file_of(dict_of("|u1", "(3,)"), "123");
  for (std::size_t n = 0; n < whole.size(); ++n) error_of(whole.substr(0, n));
  EXPECT_EQ(parse(whole).numel(), 3);
}

TEST_F(Npy, WhatCannotBeSavedOrRead) {
  EXPECT_THROWS_SAYING(save_npy(path_, Tensor()), ValueError, "save_npy: ");
  EXPECT_THROWS_SAYING(save_npy(path_, ones({2}, DType::bf16)), DTypeError,
                       "expected a dtype that NumPy has, got bf16(2,)");
  EXPECT_THROWS_SAYING(save_npy(path_, ones({2}, DType::f32, Device::meta())), DeviceError, "holds no data");
  EXPECT_THROWS_SAYING(save_npy(dir_ / "a/b", ones({2})), FileError, "cannot write the array to '");
  EXPECT_THROWS_SAYING(load_npy(path_), FileError, "load_npy: " + path_ + ": no such file");
  EXPECT_EQ(dir_.files(), 0);
}

}  // namespace
}  // namespace bytetape
