// What gather_images() and augment_images() refuse. What they make of the rest: tests/ops/images_rows.cpp.
#include "bytetape/core/images/images.h"

#include "bytetape/core/factories.h"
#include "bytetape/core/images/pixel_map.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

/// Good inputs; a test spoils one.
struct Inputs {
  Tensor images = randint(0, 256, {5, 3, 4, 6}, DType::u8), labels = arange(5), indices = arange(2),
         values = rand({3, 256});
  LabelledImages gather() const { return gather_images(images, labels, indices, values); }
};

TEST(Images, EachInputHasItsDtype) {
  EXPECT_NO_THROW(Inputs().gather());
  const char* words = "expected images of u8, labels and indices of i64 and floating values";
  EXPECT_THROWS_SAYING(Inputs{.images = zeros({5, 3, 4, 6})}.gather(), DTypeError, words);
  EXPECT_THROWS_SAYING(Inputs{.labels = zeros({5}, DType::i32)}.gather(), DTypeError, words);
  EXPECT_THROWS_SAYING(Inputs{.indices = zeros({2}, DType::i32)}.gather(), DTypeError, words);
  EXPECT_THROWS_SAYING((Inputs{.values = zeros({3, 256}, DType::u8)}.gather()), DTypeError, words);
}

TEST(Images, EachInputHasItsShape) {
  const char* words = "expected images (n, c, h, w), labels (n), indices (m) and values (c, 256)";
  EXPECT_THROWS_SAYING(Inputs{.images = zeros({5, 3, 24}, DType::u8)}.gather(), ShapeError, words);
  EXPECT_THROWS_SAYING(Inputs{.labels = zeros({5, 1}, DType::i64)}.gather(), ShapeError, words);
  EXPECT_THROWS_SAYING(Inputs{.labels = arange(4)}.gather(), ShapeError, words);
  EXPECT_THROWS_SAYING(Inputs{.indices = zeros({2, 1}, DType::i64)}.gather(), ShapeError, words);
  EXPECT_THROWS_SAYING((Inputs{.values = rand({2, 256})}.gather()), ShapeError, words);
}

// Labels of more than one dim are targets: a map, or k of them, as large as the image.
TEST(Images, TargetsHaveTheSizesOfTheImages) {
  const auto with = [](const Shape& shape) { return Inputs{.labels = zeros(shape)}.gather(); };
  EXPECT_EQ(with({5, 4, 6}).y.shape(), (Shape{2, 4, 6}));
  EXPECT_EQ(with({5, 2, 4, 6}).y.shape(), (Shape{2, 2, 4, 6}));
  for (const Shape& other : {Shape{4, 4, 6}, Shape{5, 3, 6}, Shape{5, 4, 5}, Shape{4, 2, 4, 6}, Shape{5, 2, 3, 6},
                             Shape{5, 2, 4, 5}, Shape{5, 1, 2, 4, 6}})
    EXPECT_THROWS_SAYING(with(other), ShapeError, "expected targets (n, h, w) or (n, k, h, w) for u8(5, 3, 4, 6)")
        << other;
}

TEST(Images, TargetsThatDoNotMoveAreThoseThatWereGiven) {
  const Tensor x = rand({2, 3, 4, 6}), targets = arange(48).alias({2, 4, 6}, {24, 6, 1}, 0);
  Generator generator(5);
  EXPECT_TRUE(augment_images(x, targets, {.cutout = 2}, generator).y.is_same(targets));
  const Tensor moved = augment_images(x, targets, {.flip = 1}, generator).y;
  EXPECT_FALSE(moved.is_same(targets));
  EXPECT_EQ(moved.to_vector<int>()[0], 5);
}

TEST(Images, TargetsAloneMoveAsTheirImagesWould) {
  const Tensor x = rand({6, 3, 4, 6}), targets = arange(6 * 24).alias({6, 4, 6}, {24, 6, 1}, 0);
  for (const Augmentation& by : {Augmentation{.crop_padding = 2, .flip = 0.5, .cutout = 2}, {.cutout = 2}, {}}) {
    Generator with_images(5), alone(5);
    const Tensor expected = augment_images(x, targets, by, with_images).y, moved = augment_targets(targets, by, alone);
    EXPECT_EQ(moved.to_vector<int>(), expected.to_vector<int>());
    EXPECT_EQ(moved.is_same(targets), !by.moves());
    EXPECT_EQ(alone.state().offset, with_images.state().offset) << "as many numbers are taken";
  }
}

// Rows are made in parts of 512 columns.
TEST(Images, OfAnyWidthAreCutWhereTheMapSays) {
  constexpr std::int64_t n = 24, height = 9, width = 1200;
  const Augmentation by{.crop_padding = 4, .flip = 0.5, .cutout = 101};
  Generator generator(5);
  const Augmenting augmenting{by, generator.state()};
  const Tensor x = rand({n, 1, height, width}), y = augment_images(x, by, generator);
  const std::vector<float> from = x.to_vector<float>(), to = y.to_vector<float>();
  const auto at = [](std::int64_t i, std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>((i * height + h) * width + w);
  };
  int cut_behind_the_first_part = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const PixelMap map(augmenting, i, height, width);
    for (std::int32_t h = 0; h < height; ++h)
      for (std::int32_t w = 0; w < width; ++w) {
        const std::int32_t row = map.row(h), column = map.column(w);
        const bool cut = map.cuts_row(h) && map.cuts_column(w), shown = row >= 0 && column >= 0 && !cut;
        ASSERT_EQ(to[at(i, h, w)], shown ? from[at(i, row, column)] : 0) << "image " << i << ", " << h << ", " << w;
        cut_behind_the_first_part += cut && row >= 0 && column >= 0 && w >= 512;
      }
  }
  EXPECT_GT(cut_behind_the_first_part, 0);
}

TEST(Images, EachOptionHasItsRange) {
  constexpr std::int64_t most = std::int64_t{1} << 29;
  const auto augment = [](const Augmentation& by, const Shape& shape = {2, 3, 4, 6}) {
    return augment_images(zeros(shape, DType::f32, Device::meta()), by).shape();
  };
  for (const std::int64_t outside : {std::int64_t{-1}, most}) {
    EXPECT_THROWS_SAYING(augment({.crop_padding = outside}), ValueError, "crop_padding");
    EXPECT_THROWS_SAYING(augment({.cutout = outside}), ValueError, "cutout");
  }
  for (const double outside : {-0.1, 1.1}) EXPECT_THROWS_SAYING(augment({.flip = outside}), ValueError, "flip");
  for (const Shape& large : {Shape{1, 1, most, 1}, Shape{1, 1, 1, most}})
    EXPECT_THROWS_SAYING(augment({.flip = 0.5}, large), ShapeError, "fewer than 2^29");
  const PaddingMode reflect = PaddingMode::reflect;
  for (const Shape& small : {Shape{1, 1, 3, 9}, Shape{1, 1, 9, 3}}) {
    EXPECT_THROWS_SAYING(augment({.crop_padding = 3, .padding_mode = reflect}, small), ShapeError, "larger images");
    EXPECT_EQ(augment({.crop_padding = 2, .padding_mode = reflect}, small), small);
    EXPECT_EQ(augment({.crop_padding = 3}, small), small);
  }
  EXPECT_EQ(augment({.padding_mode = reflect, .flip = 1}, {2, 3, 0, 6}), (Shape{2, 3, 0, 6})) << "nothing is cropped";
}

}  // namespace
}  // namespace bytetape
