// Images that lie on a GPU: the CPU's batches, in the CPU's order, without a look of the host.
#include "bytetape/data/resident.h"

#include <algorithm>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape::test {
namespace {

using CudaResident = GpuTest;

data::ResidentImages images(const Shape& shape, const data::ResidentOptions& options) {
  Generator g(8);
  const Tensor pixels = randint(0, 256, shape, DType::u8, Device::cpu(), g);
  const Tensor labels = randint(0, 10, shape[0], DType::i64, Device::cpu(), g);
  return {pixels, labels, {0.4, 0.3}, options};
}

Augmentation augment(bool on) {
  return on ? Augmentation{.crop_padding = 2, .padding_mode = PaddingMode::reflect, .flip = 0.5, .cutout = 3}
            : Augmentation{};
}

TEST_F(CudaResident, GivesTheBatchesOfTheCpuBitForBit) {
  for (const Shape& shape : {Shape{611, 9, 7}, Shape{611, 3, 8, 8}})
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      SCOPED_TRACE(detail::concat(shape, dtype));
      const data::ResidentImages on_cpu = images(shape, {dtype, Device::cpu()}), on_gpu = images(shape, {dtype, gpu});
      for (const bool shuffle : {false, true}) {
        data::ResidentLoader here(on_cpu,
                                  {.batch_size = 100, .shuffle = shuffle, .seed = 5, .augment = augment(shuffle)});
        data::ResidentLoader there(on_gpu, here.options());
        for (int epoch = 0; epoch < 2; ++epoch) {
          auto expected = here.begin();
          int batches = 0;
          for (const auto& [x, y] : there) {
            ASSERT_FALSE(expected == here.end());
            EXPECT_EQ(x.device(), gpu);
            EXPECT_EQ(x.dtype(), dtype);
            EXPECT_EQ(x.strides(), expected->x.strides());
            EXPECT_EQ(x.to_vector<double>(), expected->x.to_vector<double>());
            EXPECT_EQ(y.to_vector<std::int64_t>(), expected->y.to_vector<std::int64_t>());
            ++expected;
            ++batches;
          }
          EXPECT_EQ(batches, 7);
        }
      }
    }
  EXPECT_EQ(allocated(gpu), 0u);
}

/// Transfers and waits among the events.
std::size_t count_across(const std::vector<memory::Event>& events) {
  using enum memory::EventKind;
  return static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [](const memory::Event& e) {
    return e.kind == to_device || e.kind == to_host || e.kind == wait;
  }));
}

TEST_F(CudaResident, MovesNothingInAnEpoch) {
  const auto program = [](int epochs) {
    return [=](Device device) {
      const data::ResidentImages set = images({300, 16, 16}, {.device = device});
      data::ResidentLoader loader(set, {.batch_size = 64, .shuffle = true});
      for (int i = 0; i < epochs; ++i)
        for (const data::Batch& batch : loader) EXPECT_EQ(batch.y.device(), device);
    };
  };
  const auto idle = record_events(gpu, program(0)), busy = record_events(gpu, program(2));
  EXPECT_GE(busy.size(), idle.size() + 20);
  EXPECT_EQ(count_across(busy), count_across(idle));
  EXPECT_EQ(first_difference(busy, record_events(Device::meta(gpu), program(2))), "") << "as predicted";
}

TEST_F(CudaResident, LeavesTheLowestWrongIndexAsAFault) {
  const data::ResidentImages set = images({30, 4, 4}, {.device = gpu});
  std::vector<std::int64_t> indices(5000, 7);
  indices[700] = 30;
  indices[3000] = -1;
  const data::Batch batch = set.get(to(from_vector(indices), gpu));
  EXPECT_THROWS_SAYING(synchronize(gpu), ShapeError, "gather_images: example 30 of a dataset of 30");
  EXPECT_EQ(sum(abs(select(batch.x, 0, 700))).item<float>(), 0);
  EXPECT_EQ(select(batch.y, 0, 3000).item<std::int64_t>(), 0);
  const data::Batch good = set.get(arange(30, DType::i64, gpu));
  EXPECT_NO_THROW(synchronize(gpu));
}

}  // namespace
}  // namespace bytetape::test
