// Augmented batches on a GPU: the CPU's, bit for bit, and those of a captured step.
#include "bytetape/core/images/images.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

using CudaImages = GpuTest;

constexpr Augmentation mirrored{.crop_padding = 4, .padding_mode = PaddingMode::reflect, .flip = 0.5, .cutout = 5};
constexpr Augmentation bordered{.crop_padding = 9, .flip = 0.3, .cutout = 20};

Tensor pixels(const Shape& shape) {
  Generator g(8);
  return randint(0, 256, shape, DType::u8, Device::cpu(), g);
}

/// On the device of x, as the CPU reads it.
Tensor augmented(const Tensor& x, const Augmentation& by, const Tensor& values = {}) {
  Generator g(4);
  return to(augment_images(x, by, g, values), Device::cpu());
}

TEST_F(CudaImages, AreAugmentedAsOnTheCpuBitForBit) {
  for (const Shape& shape :
       {Shape{37, 3, 33, 31}, Shape{5, 1, 16, 64}, Shape{70000, 1, 10, 11}, Shape{2, 5, 300, 200}}) {
    const Tensor bytes = pixels(shape), values = randn({shape[1], 256}, DType::f32, Device::cpu());
    for (const Augmentation& by : {mirrored, bordered, Augmentation{}}) {
      const auto compare = [&](const Tensor& x, const Tensor& table = {}) {
        const Tensor there = augmented(to(x, gpu), by, table.defined() ? to(table, gpu) : table);
        EXPECT_EQ(there.to_vector<double>(), augmented(x, by, table).to_vector<double>()) << describe(x);
      };
      compare(bytes);
      compare(bytes, values);
      if (shape[0] > 1000) continue;
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        compare(to(bytes, dtype));
        compare(bytes, to(values, dtype));
      }
    }
  }
}

TEST_F(CudaImages, MoveTargetsOfEveryDtypeAsOnTheCpu) {
  const Tensor bytes = pixels({37, 3, 33, 31});
  for (const Shape& shape : {Shape{37, 33, 31}, Shape{37, 2, 33, 31}})
    for (const DType dtype :
         {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean})
      for (const Augmentation& by : {mirrored, bordered, Augmentation{.cutout = 4}}) {
        const Tensor targets = to(pixels(shape), dtype);
        const auto moved = [&](Device device) {
          Generator g(4);
          const LabelledImages made = augment_images(to(bytes, device), to(targets, device), by, g);
          const data::ResidentImages set(bytes, targets, {0.4, 0.3}, {.device = device});
          const data::Batch batch = set.get(to(from_vector<std::int64_t>({3, 36, 3, 0}), device), by, g);
          std::vector<std::vector<double>> all;
          for (const Tensor& x : {made.x, made.y, batch.x, batch.y}) all.push_back(x.to_vector<double>());
          return all;
        };
        EXPECT_EQ(moved(gpu), moved(Device::cpu())) << dtype << shape;
      }
}

TEST_F(CudaImages, FindAnIndexOutOfRangeOfTargets) {
  const data::ResidentImages set(pixels({5, 3, 8, 8}), pixels({5, 8, 8}), {0.4, 0.3}, {.device = gpu});
  const data::Batch batch = set.get(to(from_vector<std::int64_t>({3, 5}), gpu));
  EXPECT_THROWS_SAYING(synchronize(gpu), ShapeError, "example 5 of a dataset of 5");
}

TEST_F(CudaImages, AreAugmentedAnewInEachReplay) {
  const data::ResidentImages set(pixels({50, 3, 12, 12}), randint(0, 10, {50}), {0.4, 0.3}, {.device = gpu});
  const auto batches = [&](bool capturing) {
    Generator generator(6);
    const auto take = [&](const Tensor& indices) { return set.get(indices, mirrored, generator).x; };
    auto captured = capture(take);
    std::vector<std::vector<float>> all;
    for (std::int64_t i = 0; i < 6; ++i) {
      const Tensor indices = arange(3 * i, 3 * i + 20, 1, DType::i64, gpu);
      all.push_back((capturing ? captured(indices) : take(indices)).to_vector<float>());
    }
    EXPECT_EQ(captured.is_captured(), capturing);
    EXPECT_EQ(generator.state().offset, 6u * 50 * 2);
    return all;
  };
  const auto expected = batches(false);
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_EQ(batches(true), expected);
}

}  // namespace
}  // namespace bytetape::test
