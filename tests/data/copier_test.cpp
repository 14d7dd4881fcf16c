// Batches on their way to a device of the host's memory, which writes down who waits for whom. How copies and steps
// overlap on a GPU is in tests/cuda/runtime/stream_test.cpp.
#include "bytetape/data/copier.h"
#include "bytetape/core/memory/allocator.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "bytetape/bytetape.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"

namespace bytetape::data {
namespace {

using testing::ElementsAre;

const Device gpu = test::FakeGpu::gpu, meta_gpu = test::FakeGpu::meta_gpu;

class Copier : public testing::TestWithParam<int> {
 protected:
  Copier() : images(randint(0, 256, {11, 3, 5}, DType::u8, Device::cpu())), labels(arange(11)), set(images, labels) {}
  ~Copier() override { EXPECT_EQ(fake->device.statistics().allocated.current, 0u); }
  DataLoaderOptions options(Device device) const {
    return {.batch_size = 4, .shuffle = true, .workers = GetParam(), .seed = 3, .device = device};
  }

  const std::unique_ptr<test::FakeGpu> fake = std::make_unique<test::FakeGpu>();
  const Tensor images, labels;
  const TensorDataset set;
};

TEST_P(Copier, SendsTheNextBatchBeforeTheStepAndWaitsForItsOwnAlone) {
  DataLoader loader(set, options(gpu));
  for (const Batch& b : loader) {
    fake->done.push_back("step");
    b.x + b.x;
    fake->done.push_back("end");
  }
  // The first batch, and then each time: wait for it, send the next, take the step, let its memory go back behind it.
  EXPECT_THAT(fake->done, ElementsAre("copy on 15", "copy on 15", "15>0", "15>0", "copy on 15", "copy on 15", "step",
                                      "end", "0>15", "0>15", "15>0", "15>0", "copy on 15", "copy on 15", "step", "end",
                                      "0>15", "0>15", "15>0", "15>0", "step", "end", "0>15", "0>15"));
}

TEST_P(Copier, LoadsIntoPinnedMemory) {
  DataLoader loader(set, options(gpu));
  const auto it = loader.begin();
  EXPECT_EQ(it->x.storage().role(), memory::Role::input);
  const memory::Statistics s = fake->pinned.allocator().statistics();
  EXPECT_GE(s.by_role[static_cast<int>(memory::Role::input)].current, 2 * 512u);
  EXPECT_EQ(s.by_role[static_cast<int>(memory::Role::workspace)].peak, 0u);  // nothing was staged
}

TEST_P(Copier, NormalizesWhereBatchesAreHandedOut) {
  const TensorDataset floats(images, labels, mnist_normalize);
  DataLoader expected(floats, options(Device::cpu()));
  std::vector<std::vector<float>> x;
  std::vector<std::vector<std::int64_t>> y;
  for (const Batch& b : expected) {
    x.push_back(b.x.to_vector<float>());
    y.push_back(b.y.to_vector<std::int64_t>());
  }
  for (const Device device : {Device::cpu(), gpu}) {
    auto o = options(device);
    o.normalize = mnist_normalize;
    DataLoader loader(set, o);
    std::size_t i = 0;
    for (const Batch& b : loader) {
      EXPECT_EQ(b.x.device(), device);
      EXPECT_EQ(b.x.dtype(), DType::f32);
      EXPECT_EQ(b.x.shape(), Shape({b.y.size(0), 1, 3, 5}));
      EXPECT_EQ(b.x.storage().role(), memory::Role::input);
      EXPECT_EQ(b.x.to_vector<float>(), x[i]);
      EXPECT_EQ(b.y.to_vector<std::int64_t>(), y[i++]);
    }
    EXPECT_EQ(i, x.size());
  }
  EXPECT_EQ(fake->device.statistics().to_device.bytes, 11 * (15 + 8) + 256 * 8u);  // u8 images, labels and the table
}

/// All images of an epoch, one after another.
std::vector<float> images_of(DataLoader& loader, const Shape& example) {
  std::vector<float> all;
  for (const Batch& b : loader) {
    Shape shape = example;
    shape.insert(0, b.y.size(0));
    EXPECT_EQ(b.x.shape(), shape);
    EXPECT_EQ(b.x.device(), loader.options().device);
    EXPECT_EQ(b.x.storage().role(), memory::Role::input);
    const auto values = b.x.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_P(Copier, AugmentsByThePlaceInTheEpoch) {
  for (const bool normalize : {false, true}) {
    const Shape example = normalize ? Shape{1, 3, 5} : Shape{3, 5};
    auto o = options(Device::cpu());
    if (normalize) o.normalize = mnist_normalize;
    DataLoader plain(set, o);
    o.augment = {.crop_padding = 2, .padding_mode = PaddingMode::reflect, .flip = 0.5, .cutout = 2};
    DataLoader here(set, o);
    o.device = gpu;
    DataLoader there(set, o);
    o.batch_size = 3;
    DataLoader by_three(set, o);
    const auto first = images_of(here, example);
    EXPECT_NE(first, images_of(plain, example));
    const auto second = images_of(here, example);
    EXPECT_NE(first, second);
    EXPECT_EQ(images_of(there, example), first);
    EXPECT_EQ(images_of(there, example), second);
    EXPECT_EQ(images_of(by_three, example), first);
  }
}

TEST_P(Copier, KeepsTheChannelsOfImagesThatItAugments) {
  const Tensor coloured = randint(0, 256, {11, 2, 3, 5}, DType::u8, Device::cpu());
  auto pixels = coloured.to_vector<std::uint8_t>();
  for (auto row = pixels.begin(); row != pixels.end(); row += 5) std::reverse(row, row + 5);
  const TensorDataset rows(coloured, labels), turned(from_vector(pixels, coloured.shape()), labels);
  for (const Device device : {Device::cpu(), gpu}) {
    auto o = options(device);
    DataLoader expected(turned, o);
    o.augment.flip = 1;
    DataLoader flipped(rows, o);
    EXPECT_EQ(images_of(flipped, {2, 3, 5}), images_of(expected, {2, 3, 5})) << device;
  }
}

TEST_P(Copier, AugmentsAsBeforeWhereARunWasInterrupted) {
  for (const Device device : {Device::cpu(), gpu}) {
    auto o = options(device);
    o.augment = {.crop_padding = 2, .flip = 0.5};
    DataLoader whole(set, o), resumed(set, o);
    const auto all = images_of(whole, {3, 5});
    resumed.set_position(0, 1);
    EXPECT_EQ(images_of(resumed, {3, 5}), std::vector(all.begin() + 4 * 3 * 5, all.end())) << device;
  }
}

TEST_P(Copier, AugmentsEachEpochAnew) {
  auto o = options(gpu);
  o.augment = {.crop_padding = 2, .flip = 0.5};
  DataLoader loader(set, o), later(set, o);
  const auto first = images_of(loader, {3, 5}), second = images_of(loader, {3, 5});
  EXPECT_NE(first, second);
  later.set_position(1, 0);
  EXPECT_EQ(images_of(later, {3, 5}), second);
}

TEST_P(Copier, RefusesToAugmentWhatCannotBe) {
  auto o = options(gpu);
  o.augment = {.crop_padding = 3, .padding_mode = PaddingMode::reflect};
  EXPECT_THROWS_SAYING(DataLoader(set, o), ShapeError, "crop_padding 3 that reflects needs larger images");
  const TensorDataset rows(arange(4), arange(4)), integers(zeros({4, 2, 2}, DType::i64), arange(4));
  EXPECT_THROW(DataLoader(rows, o), ShapeError);
  EXPECT_THROW(DataLoader(integers, o), DTypeError);
}

/// Whether images and targets of an epoch are equal, pixel by pixel; and the targets.
std::vector<double> targets_alike(const Dataset& set, const DataLoaderOptions& o) {
  DataLoader loader(set, o);
  std::vector<double> all;
  for (const Batch& b : loader) {
    const auto targets = b.y.to_vector<double>();
    all.insert(all.end(), targets.begin(), targets.end());
    EXPECT_EQ(b.y.device(), o.device);
    EXPECT_EQ(b.y.storage().role(), memory::Role::input);
    if (o.augment.cutout) continue;
    // A target of two channels has the image in its second.
    EXPECT_EQ(b.x.to_vector<double>(), (b.y.rank() == 3 ? b.y : select(b.y, 1, 1)).to_vector<double>());
  }
  return all;
}

TEST_P(Copier, MovesTargetsOfTheImagesSizeAsTheImages) {
  const Tensor marks = view(arange(1, 12 * 15 - 14, 1, DType::f32, Device::cpu()), {11, 3, 5});
  for (const PaddingMode mode : {PaddingMode::zeros, PaddingMode::reflect})
    for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::f64, DType::f16, DType::f32}) {
      const Tensor masks = to(marks, dtype), pairs = stack({marks * 0 + 7, marks}, 1);
      const TensorDataset same(marks, masks), paired(marks, to(pairs, dtype));
      auto o = options(Device::cpu());
      const auto plain = targets_alike(same, o);
      o.augment = {.crop_padding = 2, .padding_mode = mode, .flip = 0.5};
      const auto moved = targets_alike(same, o);
      EXPECT_NE(moved, plain) << dtype;
      targets_alike(paired, o);
      auto there = o;
      there.device = gpu;
      EXPECT_EQ(targets_alike(same, there), moved) << dtype;
      auto cut = o;
      cut.augment.cutout = 2;
      EXPECT_EQ(targets_alike(same, cut), moved) << dtype << ": a target is not cut";
      cut.augment = {.cutout = 2};
      EXPECT_EQ(targets_alike(same, cut), plain) << dtype;
    }
}

TEST_P(Copier, NormalizesImagesButNoTargets) {
  const TensorDataset masked(images, to(images, DType::i64));
  auto o = options(gpu);
  o.normalize = mnist_normalize;
  o.augment = {.crop_padding = 2, .flip = 0.5};
  DataLoader loader(masked, o);
  for (const Batch& b : loader) {
    const auto pixels = b.y.to_vector<int>();
    const auto values = b.x.to_vector<float>();
    for (std::size_t i = 0; i < pixels.size(); ++i)
      ASSERT_EQ(values[i], static_cast<float>(mnist_normalize(pixels[i], 0)));
  }
}

TEST_P(Copier, RefusesToMoveTargetsOfAnotherSize) {
  auto o = options(gpu);
  const TensorDataset numbers(images, zeros({11, 4})), turned(images, zeros({11, 5, 3}));
  const auto refused = [&](const Shape& target) {
    Shape all = target;
    all.insert(0, 11);
    const TensorDataset set(images, zeros(all));
    EXPECT_THROWS_SAYING(DataLoader(set, o), ValueError,
                         detail::concat("augment moves the pixels of x, (3, 5), but cannot move those of y, ", target,
                                        ": expected labels"));
  };
  for (const Augmentation& moving : {Augmentation{.crop_padding = 1}, Augmentation{.flip = 0.5}}) {
    o.augment = moving;
    for (const Shape& target :
         {Shape{5, 3}, Shape{3, 4}, Shape{2, 5}, Shape{2, 3, 4}, Shape{2, 2, 5}, Shape{2, 1, 3, 5}})
      refused(target);
    EXPECT_NO_THROW(DataLoader(numbers, o)) << "numbers have no place in an image";
  }
  o.augment = {.cutout = 1};
  EXPECT_NO_THROW(DataLoader(turned, o)) << "cutout moves nothing";
}

TEST_P(Copier, RefusesToNormalizeWhatIsNoImage) {
  auto o = options(gpu);
  o.normalize = mnist_normalize;
  const TensorDataset rows(arange(4), arange(4)), floats(zeros({4, 3, 5}), arange(4));
  EXPECT_THROW(DataLoader(rows, o), DTypeError);
  EXPECT_THROW(DataLoader(floats, o), DTypeError);
}

/// An example of the second batch cannot be read.
class Torn final : public Dataset {
 public:
  std::int64_t size() const override { return 6; }
  ExampleSpec example() const override { return {{}, DType::f32, {}, DType::i64}; }

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor&, Tensor& y) const override {
    if (indices[0] == 2) throw std::out_of_range("torn");
    std::copy(indices.begin(), indices.end(), y.data<std::int64_t>());
  }
};

TEST_P(Copier, ThrowsWhereTheBatchWouldHaveBeenHandedOut) {
  const Torn torn;
  DataLoader loader(torn, {.batch_size = 2, .workers = GetParam(), .device = gpu});
  auto it = loader.begin();
  EXPECT_EQ(it->y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_THROW(++it, std::out_of_range);
  ++it;
  EXPECT_EQ(it->y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{4, 5}));
  ++it;
  EXPECT_TRUE(it == loader.end());
}

TEST_P(Copier, DoesWithRoomForOneBatch) {
  const TensorDataset large(zeros({6, 1 << 20}, DType::u8), arange(6));  // 2 MiB a batch
  fake->device.set_limit(std::size_t{4} << 20);  // two images more would fit, but for the labels
  DataLoader loader(large, {.batch_size = 2, .workers = GetParam(), .device = gpu});
  std::vector<std::int64_t> seen;
  for (const Batch& b : loader)
    for (const std::int64_t i : b.y.to_vector<std::int64_t>()) seen.push_back(i);
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_P(Copier, IsPredicted) {
  const Tensor meta_images = empty({11, 3, 5}, DType::u8, Device::meta());
  const TensorDataset labelled(meta_images, empty(11, DType::i64, Device::meta())),
      masked(meta_images, empty({11, 2, 3, 5}, DType::i32, Device::meta())),
      masks(images, zeros({11, 2, 3, 5}, DType::i32));
  for (const auto& [normalize, augment, with_masks] : {std::tuple(false, false, false),
                                                       {true, false, false},
                                                       {false, true, false},
                                                       {true, true, false},
                                                       {false, true, true},
                                                       {true, true, true}}) {
    const Dataset &meta_set = with_masks ? masked : labelled, &set = with_masks ? masks : this->set;
    const auto program = [&, normalize = normalize, augment = augment](Device device) {
      auto o = options(device);
      if (normalize) o.normalize = mnist_normalize;
      if (augment) o.augment.flip = 0.5;
      DataLoader loader(device.is_meta ? meta_set : set, o);
      for (int epoch = 0; epoch < 2; ++epoch)
        for (const Batch& b : loader) b.x + b.x;
    };
    program(gpu);
    program(meta_gpu);
    EXPECT_EQ(test::first_difference(fake->device.snapshot().events, fake->twin.snapshot().events), "");
    EXPECT_EQ(test::first_difference(fake->pinned.allocator().snapshot().events,
                                     fake->pinned_twin.allocator().snapshot().events),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, Copier, testing::Values(0, 1, 3));

}  // namespace
}  // namespace bytetape::data
