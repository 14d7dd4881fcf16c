#include <cmath>
#include <limits>
#include <numeric>

#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::make_tensor;

std::string printed(const Tensor& x) { return detail::concat(x); }

TEST(Print, Scalars) {
  EXPECT_EQ(printed(full({}, 2.5)), "2.5000\nf32() on cpu");
  EXPECT_EQ(printed(full({}, -7, DType::i32)), "-7\ni32() on cpu");
  EXPECT_EQ(printed(full({}, true, DType::boolean)), "true\nbool() on cpu");
}

TEST(Print, AlignsNegativeNumbers) {
  EXPECT_EQ(printed(make_tensor({1, -2.5, 30.125, 0}, {2, 2}, DType::f32)),
            "[[ 1.0000, -2.5000],\n"
            " [30.1250,  0.0000]]\n"
            "f32(2, 2) on cpu");
}

TEST(Print, WholeNumbersStayShort) {
  EXPECT_EQ(printed(make_tensor({1, -20, 300000}, {3})), "[     1.,    -20., 300000.]\nf64(3,) on cpu");
  EXPECT_EQ(printed(from_vector<std::int64_t>({-5, std::numeric_limits<std::int64_t>::max()})),
            "[                 -5, 9223372036854775807]\ni64(2,) on cpu");
}

TEST(Print, LargeAndSmallNumbersAreScientific) {
  EXPECT_EQ(printed(make_tensor({1.5, -2e10}, {2})), "[ 1.5000e+00, -2.0000e+10]\nf64(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({0, 1.25e-7}, {2})), "[0.0000e+00, 1.2500e-07]\nf64(2,) on cpu");
}

TEST(Print, AreScientificFromTheseOn) {
  EXPECT_EQ(printed(make_tensor({99999999, 1}, {2})), "[99999999.,        1.]\nf64(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({100000000, 1}, {2})), "[1.0000e+08, 1.0000e+00]\nf64(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({999999.5, 1}, {2})), "[999999.5000,      1.0000]\nf64(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({-1000000, 0.5}, {2})), "[-1.0000e+06,  5.0000e-01]\nf64(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({0.5, 1e-4}, {2})), "[0.5000, 0.0001]\nf64(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({9e-5, 0.5}, {2})), "[9.0000e-05, 5.0000e-01]\nf64(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({0.5, -9e-5}, {2})), "[ 5.0000e-01, -9.0000e-05]\nf64(2,) on cpu");
}

TEST(Print, NotANumberAndInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(printed(make_tensor({std::nan(""), 0.5, -inf, inf}, {4})),
            "[   nan, 0.5000,   -inf,    inf]\nf64(4,) on cpu");
  EXPECT_EQ(printed(make_tensor({-std::nan("")}, {})), "nan\nf64() on cpu");
}

TEST(Print, EveryDtype) {
  EXPECT_EQ(printed(make_tensor({0.5, 3}, {2}, DType::bf16)), "[0.5000, 3.0000]\nbf16(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({0.5, 3}, {2}, DType::f16)), "[0.5000, 3.0000]\nf16(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({7, 255}, {2}, DType::u8)), "[  7, 255]\nu8(2,) on cpu");
  EXPECT_EQ(printed(make_tensor({1, 0}, {2}, DType::boolean)), "[ true, false]\nbool(2,) on cpu");
}

TEST(Print, DimsAreNested) {
  EXPECT_EQ(printed(arange(0, 8, 1, DType::u8).alias({2, 2, 2}, {4, 2, 1}, 0)),
            "[[[0, 1],\n"
            "  [2, 3]],\n"
            "\n"
            " [[4, 5],\n"
            "  [6, 7]]]\n"
            "u8(2, 2, 2) on cpu");
}

TEST(Print, FollowsStrides) {
  const Tensor x = arange(6);
  EXPECT_EQ(printed(x.alias({2, 3}, {1, 2}, 0)), "[[0, 2, 4],\n [1, 3, 5]]\ni64(2, 3) on cpu");
  EXPECT_EQ(printed(x.alias({3}, {0}, 4)), "[4, 4, 4]\ni64(3,) on cpu");
  EXPECT_EQ(printed(x.alias({2}, {1}, 3)), "[3, 4]\ni64(2,) on cpu");
}

TEST(Print, NothingToShow) {
  EXPECT_EQ(printed(empty({2, 0, 3})), "[]\nf32(2, 0, 3) on cpu");
  EXPECT_EQ(printed(zeros({2, 3}, DType::f32, Device::meta())), "[no data]\nf32(2, 3) on meta");
  EXPECT_EQ(printed(Tensor()), "an undefined tensor");
}

TEST(Print, SummarisesPastAThousandElements) {
  EXPECT_EQ(printed(arange(1001)), "[   0,    1,    2, ...,  998,  999, 1000]\ni64(1001,) on cpu");
  EXPECT_EQ(printed(arange(2000).alias({2, 1000}, {1000, 1}, 0)),
            "[[   0,    1,    2, ...,  997,  998,  999],\n"
            " [1000, 1001, 1002, ..., 1997, 1998, 1999]]\n"
            "i64(2, 1000) on cpu");
  EXPECT_EQ(printed(arange(2000).alias({1000, 2}, {2, 1}, 0)),
            "[[   0,    1],\n"
            " [   2,    3],\n"
            " [   4,    5],\n"
            " ...,\n"
            " [1994, 1995],\n"
            " [1996, 1997],\n"
            " [1998, 1999]]\n"
            "i64(1000, 2) on cpu");
  EXPECT_THAT(printed(arange(1000)), testing::Not(testing::HasSubstr("...")));
}

TEST(Print, ReadsOnlyWhatItShows) {  // a corner of a tensor whose rows lie far apart
  const Tensor x = arange(7 * 7 * 7 * 7).alias({7, 7, 7, 7}, {1, 7, 49, 343}, 0);
  EXPECT_THAT(printed(x), testing::AllOf(testing::StartsWith("[[[[   0,  343,  686, ..., 1372, 1715, 2058],\n"),
                                         testing::EndsWith(" 2400]]]]\ni64(7, 7, 7, 7) on cpu")));
}

TEST(Print, WrapsLongRows) {
  const std::string text = printed(arange(100));
  EXPECT_THAT(text, testing::HasSubstr(",\n "));
  std::size_t longest = 0, line = 0;
  for (const char c : text) longest = std::max(longest, line = c == '\n' ? 0 : line + 1);
  EXPECT_LE(longest, 100u);
  EXPECT_GE(longest, 90u);
}

}  // namespace
}  // namespace bytetape
