#include "bytetape/core/images/pixel_map.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

namespace bytetape {
namespace {

constexpr Augmenting moved(const Augmentation& by, PhiloxState state = {7, 3}) { return {by, state}; }

TEST(PixelMap, OfNothingIsTheImage) {
  constexpr PixelMap map(moved({}), 5, 4, 6);
  for (int h = 0; h < 4; ++h) {
    EXPECT_EQ(map.row(h), h);
    EXPECT_FALSE(map.cuts_row(h));
  }
  for (int w = 0; w < 6; ++w) EXPECT_EQ(map.column(w), w);
}

TEST(PixelMap, FlipsAllOrNone) {
  for (std::int64_t image = 0; image < 50; ++image)
    for (int w = 0; w < 6; ++w) {
      EXPECT_EQ(PixelMap(moved({.flip = 1}), image, 4, 6).column(w), 5 - w);
      EXPECT_EQ(PixelMap(moved({.flip = 1e-12}), image, 4, 6).column(w), w);
    }
}

TEST(PixelMap, MirrorsAtTheOutermostPixel) {
  const Augmentation by{.crop_padding = 2, .padding_mode = PaddingMode::reflect};
  for (std::int64_t image = 0; image < 50; ++image) {
    const PixelMap map(moved(by), image, 4, 4), zeros(moved({.crop_padding = 2}), image, 4, 4);
    for (int h = 0; h < 4; ++h) {
      EXPECT_GE(map.row(h), 0);
      EXPECT_LT(map.row(h), 4);
      EXPECT_EQ(std::abs(map.row(h) - map.row(h == 0 ? 1 : h - 1)), 1) << "neighbours stay neighbours";
      EXPECT_TRUE(zeros.row(h) == -1 || zeros.row(h) == map.row(h));
    }
  }
}

TEST(PixelMap, DrawsEveryPlaceAlike) {
  constexpr int images = 7000;
  std::array<int, 7> rows{}, centres{};
  int flips = 0;
  for (std::int64_t image = 0; image < images; ++image) {
    const PixelMap map(moved({.crop_padding = 3, .flip = 0.25, .cutout = 1}), image, 7, 7);
    // Rows fall by 3 to rise by 3: what is above the image is -1.
    int above = 0;
    while (above < 7 && map.row(above) < 0) ++above;
    ++rows.at(static_cast<std::size_t>(above > 0 ? 3 - above : 3 + map.row(0)));
    const int centre = map.column(3), next = map.column(4);  // the centre never leaves the image, the next may
    flips += (next >= 0 ? centre > next : centre == 0) ? 1 : 0;
    for (int h = 0; h < 7; ++h) centres.at(static_cast<std::size_t>(h)) += map.cuts_row(h) ? 1 : 0;
  }
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(rows[i], images / 7, 150) << i;  // five standard deviations
    EXPECT_NEAR(centres[i], images / 7, 150) << i;
  }
  EXPECT_NEAR(flips, images / 4, 190);
}

TEST(PixelMap, OfACapturedStepStartsWhereTheDeviceSays) {
  const PhiloxState start{7, 1000};
  const Augmentation by{.crop_padding = 4, .flip = 0.5, .cutout = 3};
  const Augmenting carried{by, {1, 20, &start}}, plain{by, {7, 1020}};
  for (std::int64_t image = 0; image < 40; ++image) {
    const PixelMap a(carried, image, 16, 16), b(plain, image, 16, 16);
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(a.row(i), b.row(i));
      EXPECT_EQ(a.column(i), b.column(i));
      EXPECT_EQ(a.cuts_row(i), b.cuts_row(i));
      EXPECT_EQ(a.cuts_column(i), b.cuts_column(i));
    }
  }
}

}  // namespace
}  // namespace bytetape
