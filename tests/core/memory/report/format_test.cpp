#include "bytetape/core/memory/format.h"

#include <gtest/gtest.h>

#include <limits>

namespace bytetape::memory {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

TEST(Format, BytesHaveThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(9728), "9.50 KiB");
  EXPECT_EQ(format_bytes(10 * KiB), "10.0 KiB");
  EXPECT_EQ(format_bytes(100 * MiB), "100 MiB");
  EXPECT_EQ(format_bytes(GiB + GiB / 5), "1.20 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::size_t>::max()), "16.0 EiB");
}

TEST(Format, RoundingMovesToTheNextUnit) {
  EXPECT_EQ(format_bytes(MiB - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(10 * KiB - 1), "10.0 KiB");
  EXPECT_EQ(format_bytes(100 * KiB - 1), "100 KiB");
  EXPECT_EQ(format_bytes(1023 * KiB), "1023 KiB");
}

TEST(Format, ExactBytesAreGrouped) {
  EXPECT_EQ(format_exact(0), "0");
  EXPECT_EQ(format_exact(999), "999");
  EXPECT_EQ(format_exact(1000), "1,000");
  EXPECT_EQ(format_exact(50331648), "50,331,648");
}

TEST(Format, BarsGoByEighths) {
  EXPECT_EQ(format_bar(1, 1, 3), "███");
  EXPECT_EQ(format_bar(1, 2, 3), "█▌");
  EXPECT_EQ(format_bar(1, 1000000, 3), "▏");
  EXPECT_EQ(format_bar(0, 7, 3), "");
  EXPECT_EQ(format_bar(7, 0, 3), "");
  EXPECT_EQ(format_bar(9, 3, 2), "██");
}

TEST(Format, SharesAreWholePercents) {
  EXPECT_EQ(format_share(0, 10), "0 %");
  EXPECT_EQ(format_share(1, 1000), "<1 %");
  EXPECT_EQ(format_share(2, 3), "67 %");
  EXPECT_EQ(format_share(3, 3), "100 %");
  EXPECT_EQ(format_share(1, 100), "1 %");
  EXPECT_EQ(format_share(5, 0), "0 %") << "of nothing";
}

}  // namespace
}  // namespace bytetape::memory
