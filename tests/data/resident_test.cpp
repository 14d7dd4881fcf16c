#include "bytetape/data/resident.h"
#include "bytetape/core/memory/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/default_device.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/images/images.h"
#include "bytetape/data/seeds.h"
#include "tests/data/files.h"
#include "tests/support/events.h"

namespace bytetape::data {
namespace {

static_assert(std::input_iterator<ResidentLoader::Iterator>);
static_assert(!std::is_constructible_v<ResidentLoader, const ResidentImages>, "temporary images would dangle");

using Indices = std::vector<std::int64_t>;

struct Examples {
  Tensor images, labels;
};
/// Noise; example i has the label 100 + i.
Examples examples(const Shape& shape) {
  Generator generator(5);
  return {randint(0, 256, shape, DType::u8, Device::cpu(), generator),
          arange(100, 100 + shape[0], 1, DType::i64, Device::cpu())};
}

/// The labels of each batch, without the 100; images are held to be those of a TensorDataset.
std::vector<Indices> epoch(ResidentLoader& loader, const TensorDataset& expected) {
  std::vector<Indices> batches;
  for (const auto& [x, y] : loader) {
    Indices& seen = batches.emplace_back(y.to_vector<std::int64_t>());
    for (std::int64_t& i : seen) i -= 100;
    EXPECT_EQ(x.to_vector<float>(), expected.get(seen).x.to_vector<float>());
  }
  return batches;
}
Indices flat(const std::vector<Indices>& batches) {
  Indices all;
  for (const Indices& b : batches) all.insert(all.end(), b.begin(), b.end());
  return all;
}
Indices counted(std::int64_t n) {
  Indices all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(ResidentImages, GathersWhatADatasetLoadsBitForBit) {
  const Normalize by_channel{{0.49, 0.48, 0.45}, {0.25, 0.24, 0.26}};
  for (const auto& [shape, by] :
       {std::pair(Shape{6, 5, 4}, mnist_normalize), {{6, 3, 5, 4}, by_channel}, {{6, 2, 5, 4}, Normalize{}}}) {
    const Examples e = examples(shape);
    const ResidentImages resident(e.images, e.labels, by);
    const Indices indices{4, 0, 4, 5, 1};
    const Batch batch = resident.get(from_vector(indices)),
                expected = TensorDataset(e.images, e.labels, by).get(indices);
    EXPECT_EQ(resident.size(), 6);
    EXPECT_EQ(batch.x.shape(), expected.x.shape());
    EXPECT_EQ(batch.x.to_vector<float>(), expected.x.to_vector<float>());
    EXPECT_EQ(batch.y.to_vector<std::int64_t>(), expected.y.to_vector<std::int64_t>());
    EXPECT_TRUE(is_channels_last(batch.x.shape(), batch.x.strides()));
  }
}

TEST(ResidentImages, RoundsToTheDTypeAskedFor) {
  const Examples e = examples({3, 2, 4, 4});
  const Tensor all = arange(3, DType::i64);
  const auto of = [&](DType dtype) {
    return ResidentImages(e.images, e.labels, mnist_normalize, {.dtype = dtype}).get(all).x;
  };
  const std::vector<double> exact = of(DType::f64).to_vector<double>();
  for (const auto& [dtype, most] : {std::pair(DType::f32, 0x1p-24), {DType::bf16, 0x1p-8}, {DType::f16, 0x1.01p-11}}) {
    const Tensor x = of(dtype);
    EXPECT_EQ(x.dtype(), dtype);
    const std::vector<double> values = x.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], exact[i], most * std::max(std::abs(exact[i]), 0x1p-10)) << dtype;
  }
}

TEST(ResidentImages, ShareWhatLiesThereAndAreInputsOnTheLedger) {
  const Examples e = examples({5, 28, 28});
  const std::size_t before = memory::stats(Device::cpu()).allocated.current;
  const ResidentImages resident(e.images, e.labels, mnist_normalize);
  EXPECT_EQ(memory::stats(Device::cpu()).allocated.current - before, 1024u) << "256 floats";
  const Batch batch = resident.get(from_vector<std::int64_t>({4, 1}));
  for (const Tensor& t : {batch.x, batch.y}) {
    EXPECT_EQ(t.storage().role(), memory::Role::input);
    const memory::ScopeIds owner = t.storage().owner();
    EXPECT_EQ(owner.phase, memory::Phase::data);
    EXPECT_EQ(memory::name_of(owner.op), "gather_images");
  }
}

TEST(ResidentImages, AreCheckedAndSoAreIndices) {
  const Examples e = examples({3, 2, 2});
  const auto message = [](auto error, const Tensor& images, const Tensor& labels, const ResidentOptions& o = {}) {
    return error_of<decltype(error)>([&] { ResidentImages(images, labels, mnist_normalize, o); });
  };
  EXPECT_EQ(message(DTypeError(""), e.labels, e.labels),
            "ResidentImages: expected u8 images to normalise, got i64(3,) on cpu");
  EXPECT_EQ(message(DTypeError(""), e.images, zeros(3)), "ResidentImages: expected i64 labels, got f32(3,) on cpu");
  EXPECT_EQ(message(ShapeError(""), e.images, arange(4)),
            "ResidentImages: expected a label for each image, got u8(3, 2, 2) on cpu and i64(4,) on cpu");
  EXPECT_THAT(message(ShapeError(""), e.images, zeros({3, 1}, DType::i64)),
              testing::HasSubstr("a label for each image"));
  EXPECT_EQ(message(DTypeError(""), e.images, e.labels, {.dtype = DType::u8}),
            "ResidentImages: expected a floating dtype for normalised images, got u8");
  EXPECT_EQ(message(ValueError(""), {}, e.labels), "ResidentImages: images is an undefined tensor");
  EXPECT_EQ(message(DeviceError(""), empty({3, 2, 2}, DType::u8, Device::meta()), e.labels),
            "ResidentImages: u8(3, 2, 2) on meta holds no data");
  const Device meta = Device::meta();
  EXPECT_NO_THROW(ResidentImages(empty({3, 2, 2}, DType::u8, meta), empty({3}, DType::i64, meta), mnist_normalize,
                                 {.device = meta}));
  EXPECT_NO_THROW(ResidentImages(e.images, e.labels, mnist_normalize, {.device = meta}));
  const Device other_meta = Device::meta(Device::cuda());
  EXPECT_EQ(ResidentImages(empty({3, 2, 2}, DType::u8, meta), empty({3}, DType::i64, meta), mnist_normalize,
                           {.device = other_meta})
                .device(),
            other_meta);
  const ResidentImages resident(e.images, e.labels, mnist_normalize);
  EXPECT_EQ(ResidentLoader(resident, {.batch_size = 1}).size(), 3);
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{3}})
    EXPECT_EQ(error_of<ShapeError>([&] {
                resident.get(from_vector<std::int64_t>({1, wrong, 7}));
              }),
              "gather_images: example " + std::to_string(wrong) + " of a dataset of 3");
  EXPECT_EQ(error_of<ValueError>([&] { ResidentLoader(resident, {.batch_size = 0}); }),
            "ResidentLoader: expected batch_size >= 1, got 0");
}

TEST(ResidentLoader, MovesTargetsOfTheImagesSizeAsTheImages) {
  const Tensor marks = randint(0, 256, {10, 4, 5}, DType::u8, Device::cpu());
  for (const DType dtype : {DType::i64, DType::u8, DType::boolean, DType::f32}) {
    const Tensor masks = to(marks, dtype);
    const ResidentImages single(marks, masks, Normalize{}), paired(marks, stack({masks, masks}, 1), Normalize{});
    for (const ResidentImages* images : {&single, &paired}) {
      ResidentLoader loader(*images, {.batch_size = 4, .shuffle = true, .augment = {.crop_padding = 2, .flip = 0.5}}),
          cut(*images, {.batch_size = 4, .shuffle = true, .augment = {.crop_padding = 2, .flip = 0.5, .cutout = 3}});
      auto other = cut.begin();
      for (const Batch& b : loader) {
        EXPECT_EQ(b.y.shape(), images == &single ? Shape({b.x.size(0), 4, 5}) : Shape({b.x.size(0), 2, 4, 5}));
        EXPECT_EQ(b.y.dtype(), dtype);
        EXPECT_EQ(b.y.storage().role(), memory::Role::input);
        const Tensor y = b.y.rank() == 3 ? b.y : select(b.y, 1, 1);
        const Tensor pixels = to(b.x * 255 + 0.25, DType::u8);
        EXPECT_EQ(y.to_vector<double>(), to(pixels, dtype).to_vector<double>());
        EXPECT_EQ(other->y.to_vector<double>(), b.y.to_vector<double>()) << "a target is not cut";
        EXPECT_NE(other->x.to_vector<double>(), b.x.to_vector<double>());
        ++other;
      }
    }
    EXPECT_EQ(error_of<ShapeError>([&] {
                single.get(from_vector<std::int64_t>({1, 10}));
              }),
              "gather_images: example 10 of a dataset of 10");
  }
  for (const Shape& target :
       {Shape{10, 5, 4}, Shape{9, 4, 5}, Shape{10, 2, 4, 4}, Shape{10, 2, 3, 5}, Shape{10, 1, 1, 4, 5}})
    EXPECT_THAT(
        error_of<ShapeError>([&] { ResidentImages(marks, zeros(target), Normalize{}); }),
        testing::HasSubstr("expected a target (h, w) or (k, h, w) of its size for each image, got u8(10, 4, 5)"))
        << target;
}

TEST(ResidentLoader, TakesAllInOrderWithASmallerLastBatch) {
  const Examples e = examples({10, 3, 2});
  const ResidentImages images(e.images, e.labels, mnist_normalize);
  const TensorDataset expected(e.images, e.labels, mnist_normalize);
  ResidentLoader loader(images, {.batch_size = 4});
  EXPECT_EQ(loader.size(), 3);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(epoch(loader, expected), (std::vector<Indices>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
  ResidentLoader whole(images, {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(whole.size(), 2);
  EXPECT_EQ(epoch(whole, expected), (std::vector<Indices>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  ResidentLoader none(images, {.batch_size = 11, .drop_last = true});
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(epoch(none, expected).empty());
}

TEST(ResidentLoader, ShufflesBySeedAndEpochAlone) {
  const Examples e = examples({50, 3, 2});
  const ResidentImages images(e.images, e.labels, mnist_normalize);
  const TensorDataset expected(e.images, e.labels, mnist_normalize);
  const auto loader = [&](std::uint64_t seed) {
    return ResidentLoader(images, {.batch_size = 7, .shuffle = true, .seed = seed});
  };
  ResidentLoader one = loader(1), again = loader(1), other = loader(2);
  const Indices first = flat(epoch(one, expected));
  randperm(3);  // others' numbers do not matter
  EXPECT_EQ(flat(epoch(again, expected)), first);
  EXPECT_NE(flat(epoch(other, expected)), first);
  const Indices second = flat(epoch(one, expected));
  EXPECT_NE(second, first);
  EXPECT_EQ(flat(epoch(again, expected)), second);
  for (Indices all : {first, second}) {
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, counted(50));
  }
}

TEST(ResidentLoader, DealsBatchesOutToRanks) {
  const Examples e = examples({23, 2, 2});
  const ResidentImages images(e.images, e.labels, mnist_normalize);
  const TensorDataset expected(e.images, e.labels, mnist_normalize);
  const auto batches_of = [&](int rank, int world_size, std::int64_t batch_size, std::int64_t from) {
    ResidentLoader loader(images, {.batch_size = batch_size,
                                   .shuffle = true,
                                   .drop_last = true,
                                   .seed = 3,
                                   .rank = rank,
                                   .world_size = world_size});
    EXPECT_EQ(loader.size(), 23 / (batch_size * world_size));
    loader.set_position(2, from);
    return epoch(loader, expected);
  };
  const std::vector<Indices> all = batches_of(0, 1, 3, 0);
  for (const std::int64_t from : {0, 1})
    for (int rank = 0; rank < 3; ++rank) {
      const std::vector<Indices> share = batches_of(rank, 3, 3, from);
      ASSERT_EQ(share.size(), static_cast<std::size_t>(2 - from));
      for (std::size_t i = 0; i < share.size(); ++i)
        EXPECT_EQ(share[i], all[(i + static_cast<std::size_t>(from)) * 3 + static_cast<std::size_t>(rank)]);
    }
  EXPECT_THROW(ResidentLoader(images, {.drop_last = true, .rank = 2, .world_size = 2}), ValueError);
  EXPECT_THROW(ResidentLoader(images, {.drop_last = true, .rank = -1, .world_size = 2}), ValueError);
  EXPECT_THROW(ResidentLoader(images, {.rank = 0, .world_size = 2}), ValueError);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(ResidentLoader(images, {.batch_size = most, .drop_last = true, .rank = 1, .world_size = 2}), ValueError);
}

TEST(ResidentLoader, EntersAnEpochWhereARunWasInterrupted) {
  const Examples e = examples({50, 3, 2});
  const ResidentImages images(e.images, e.labels, mnist_normalize);
  const TensorDataset expected(e.images, e.labels, mnist_normalize);
  ResidentLoader whole(images, {.batch_size = 7, .shuffle = true});
  epoch(whole, expected);
  const std::vector<Indices> second = epoch(whole, expected);
  for (const std::int64_t done : {0, 1, 7, 8}) {
    ResidentLoader resumed(images, {.batch_size = 7, .shuffle = true});
    resumed.set_position(1, done);
    EXPECT_EQ(epoch(resumed, expected), std::vector(second.begin() + done, second.end()));
  }
  EXPECT_EQ(error_of<ValueError>([&] { whole.set_position(0, 9); }),
            "ResidentLoader: expected a batch from 0 to 8 to start at, got 9");
  EXPECT_EQ(error_of<ValueError>([&] { whole.set_position(-1); }),
            "ResidentLoader: expected an epoch from 0 to 4194303 to start at, got -1");
}

TEST(ResidentLoader, IsPredictedToTheByte) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    const Tensor pixels = empty({21, 3, 8, 8}, DType::u8);
    for (const Tensor& labels : {empty(21, DType::i64), empty({21, 8, 8}, DType::i64)}) {
      const ResidentImages images(pixels, labels, mnist_normalize);
      ResidentLoader loader(images, {.batch_size = 8, .shuffle = true, .augment = {.flip = 0.5}});
      for (int i = 0; i < 2; ++i)
        for (const Batch& batch : loader) EXPECT_EQ(batch.x.device(), device);
    }
  };
  const auto predicted = test::record_events(Device::meta(), program);
  EXPECT_GT(predicted.size(), 20u);
  EXPECT_EQ(test::first_difference(test::record_events(Device::cpu(), program), predicted), "");
}

TEST(ResidentLoader, OfNothingHasNoBatches) {
  const ResidentImages images(empty({0, 2, 2}, DType::u8), empty(0, DType::i64), mnist_normalize);
  ResidentLoader loader(images, {.shuffle = true});
  EXPECT_TRUE(loader.begin() == loader.end());
}

constexpr Augmentation moved{.crop_padding = 2, .padding_mode = PaddingMode::reflect, .flip = 0.5, .cutout = 2};

/// Image i of an epoch is that of example i, in whichever batch it came.
std::vector<std::vector<float>> by_example(ResidentLoader& loader) {
  std::vector<std::vector<float>> images(static_cast<std::size_t>(loader.size() * loader.options().batch_size));
  for (const auto& [x, y] : loader) {
    const std::vector<float> all = x.to_vector<float>();
    const auto labels = y.to_vector<std::int64_t>();
    const auto each = static_cast<std::ptrdiff_t>(all.size() / labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(i) * each;
      images.at(static_cast<std::size_t>(labels[i] - 100)).assign(first, first + each);
    }
  }
  return images;
}

TEST(ResidentLoader, AugmentsAnExampleAlikeInAnyBatch) {
  const Examples e = examples({12, 3, 6, 5});
  const ResidentImages images(e.images, e.labels, mnist_normalize);
  ResidentLoader by_four(images, {.batch_size = 4, .shuffle = true, .seed = 9, .augment = moved});
  ResidentLoader by_three(images, {.batch_size = 3, .seed = 9, .augment = moved});
  ResidentLoader other(images, {.batch_size = 3, .seed = 8, .augment = moved});
  std::vector<std::vector<float>> last;
  for (const std::uint64_t epoch : {0, 1}) {
    const auto seen = by_example(by_four);
    EXPECT_EQ(seen, by_example(by_three));
    EXPECT_NE(seen, by_example(other));
    EXPECT_NE(seen, last) << "each epoch has changes of its own";
    Generator generator;
    generator.set_state(augmentation_state(9, epoch));
    const Tensor table = pixel_table(normalized_pixels(e.images, mnist_normalize), DType::f32, Device::cpu());
    const auto all = augment_images(e.images, moved, generator, table).to_vector<float>();
    for (std::size_t i = 0; i < 12; ++i)
      EXPECT_EQ(seen[i], std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(i) * 90,
                                            all.begin() + static_cast<std::ptrdiff_t>(i + 1) * 90));
    last = seen;
  }
}

TEST(ResidentImages, DrawFromTheGeneratorOnlyToAugment) {
  const Examples e = examples({5, 4, 4});
  const ResidentImages images(e.images, e.labels, mnist_normalize);
  Generator generator(3);
  images.get(arange(5), {}, generator);
  EXPECT_EQ(generator.state().offset, 0u);
  EXPECT_THROW(images.get(from_vector<std::int64_t>({0, 5}), {.flip = 2}, generator), ValueError);
  EXPECT_EQ(generator.state().offset, 0u) << "as what failed drew nothing";
  images.get(from_vector<std::int64_t>({0, 3}), moved, generator);
  EXPECT_EQ(generator.state().offset, 10u) << "two counters for each of the five";
}

}  // namespace
}  // namespace bytetape::data
