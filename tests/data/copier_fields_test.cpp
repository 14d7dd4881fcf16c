// Batches of more than x and y in a loader: masks that move with x, and tensors that do not.
#include <string>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/data/copier.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"

namespace bytetape::data {
namespace {

const Device gpu = test::FakeGpu::gpu, meta_gpu = test::FakeGpu::meta_gpu;
constexpr std::int64_t n = 11;

Tensor on_cpu(const Shape& shape) { return view(arange(1, numel(shape) + 1, 1, DType::f32, Device::cpu()), shape); }

/// x (3, 5), a mask (3, 5) and two (2, 3, 5) with the pixels of x, and boxes (2, 4).
TensorDataset scenes(DType dtype, const Tensor& marks = on_cpu({n, 3, 5})) {
  const Tensor masks = to(marks, dtype);
  return {marks,
          arange(n),
          {},
          {{.name = "mask", .rows = masks, .moves_with_x = true},
           {.name = "boxes", .rows = on_cpu({n, 2, 4})},
           {.name = "layers", .rows = stack({masks, masks}, 1), .moves_with_x = true}}};
}

using Values = std::vector<std::vector<double>>;

/// The values of a tensor in each batch of an epoch.
Values values_of(DataLoader& loader, const std::string& name) {
  Values all;
  for (const Batch& batch : loader) {
    for (const auto& [key, tensor] : batch.more) {
      EXPECT_EQ(tensor.device(), loader.options().device) << key;
      EXPECT_EQ(tensor.storage().role(), memory::Role::input) << key;
      EXPECT_EQ(tensor.size(0), batch.x.size(0)) << key;
    }
    all.push_back(batch[name].to_vector<double>());
  }
  return all;
}

class CopierFields : public testing::TestWithParam<int> {
 protected:
  ~CopierFields() override { EXPECT_EQ(fake->device.statistics().allocated.current, 0u); }
  DataLoaderOptions options(Device device, int workers = GetParam()) const {
    return {.batch_size = 4, .shuffle = true, .workers = workers, .seed = 3, .device = device};
  }
  const std::unique_ptr<test::FakeGpu> fake = std::make_unique<test::FakeGpu>();
};

TEST_P(CopierFields, AreTheSameForAnyNumberOfWorkersOnAnyDeviceFromAnyPosition) {
  const TensorDataset set = scenes(DType::i64);
  for (const Augmentation& augment : {Augmentation{}, Augmentation{.crop_padding = 2, .flip = 0.5}})
    for (const char* name : {"mask", "boxes", "layers"}) {
      auto o = options(Device::cpu(), 0);
      o.augment = augment;
      DataLoader alone(set, o);
      const Values first = values_of(alone, name), second = values_of(alone, name);
      EXPECT_EQ(first.size(), 3u);
      EXPECT_NE(first, second) << name << " is shuffled with x";
      for (const Device device : {Device::cpu(), gpu}) {
        o = options(device);
        o.augment = augment;
        DataLoader loader(set, o), resumed(set, o);
        EXPECT_EQ(values_of(loader, name), first) << name << " on " << device;
        EXPECT_EQ(values_of(loader, name), second) << name << " on " << device;
        resumed.set_position(1, 1);
        EXPECT_EQ(values_of(resumed, name), Values(second.begin() + 1, second.end())) << name << " on " << device;
      }
    }
}

TEST_P(CopierFields, MoveWithXIfTheyAreImages) {
  for (const Device device : {Device::cpu(), gpu})
    for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::f64, DType::f16, DType::f32})
      for (const PaddingMode mode : {PaddingMode::zeros, PaddingMode::reflect}) {
        const TensorDataset set = scenes(dtype);
        auto o = options(device);
        DataLoader plain(set, o), same(set, o);
        const Values unmoved = values_of(plain, "mask"), boxes = values_of(same, "boxes");
        o.augment = {.crop_padding = 2, .padding_mode = mode, .flip = 0.5};
        DataLoader moving(set, o), again(set, o);
        std::size_t i = 0;
        for (const Batch& batch : moving) {
          const auto pixels = batch.x.to_vector<double>();
          EXPECT_EQ(batch["mask"].dtype(), dtype);
          EXPECT_EQ(batch["mask"].to_vector<double>(), pixels) << dtype;
          EXPECT_EQ(select(batch["layers"], 1, 0).to_vector<double>(), pixels) << dtype;
          EXPECT_EQ(select(batch["layers"], 1, 1).to_vector<double>(), pixels) << dtype;
          EXPECT_EQ(batch["boxes"].to_vector<double>(), boxes[i++]) << "boxes stay";
        }
        const Values moved = values_of(again, "mask");
        EXPECT_NE(moved, unmoved);
        o.augment.cutout = 2;
        DataLoader cut(set, o);
        EXPECT_EQ(values_of(cut, "mask"), moved) << "a mask is not cut";
        o.augment = {.cutout = 2};
        DataLoader only_cut(set, o);
        EXPECT_EQ(values_of(only_cut, "mask"), unmoved);
      }
}

TEST_P(CopierFields, MoveWithTargetsThatMove) {
  const Tensor marks = on_cpu({n, 3, 5});
  const TensorDataset set(marks, marks, {},
                          {{.name = "mask", .rows = to(marks, DType::boolean), .moves_with_x = true}});
  auto o = options(gpu);
  o.augment = {.crop_padding = 2, .flip = 0.5};
  DataLoader loader(set, o);
  for (const auto& batch : loader) {
    const auto pixels = batch.y.to_vector<double>(), mask = batch["mask"].to_vector<double>();
    EXPECT_EQ(batch["mask"].dtype(), DType::boolean);
    for (std::size_t i = 0; i < pixels.size(); ++i) ASSERT_EQ(mask[i], pixels[i] != 0);
  }
}

TEST_P(CopierFields, AreNotNormalized) {
  const Tensor images = randint(0, 256, {n, 3, 5}, DType::u8, Device::cpu());
  const TensorDataset set = scenes(DType::u8, images);
  for (const Device device : {Device::cpu(), gpu})
    for (const Augmentation& augment : {Augmentation{}, Augmentation{.crop_padding = 2, .flip = 0.5}}) {
      auto o = options(device);
      o.normalize = mnist_normalize;
      o.augment = augment;
      DataLoader loader(set, o);
      for (const Batch& batch : loader) {
        EXPECT_EQ(batch["mask"].dtype(), DType::u8);
        const auto pixels = batch["mask"].to_vector<int>();
        const auto values = batch.x.to_vector<float>();
        for (std::size_t i = 0; i < pixels.size(); ++i)
          ASSERT_EQ(values[i], static_cast<float>(mnist_normalize(pixels[i], 0)));
      }
    }
}

TEST_P(CopierFields, TravelFromPinnedMemory) {
  const TensorDataset set = scenes(DType::i64);
  DataLoader loader(set, options(gpu));
  for (const Batch& batch : loader) static_cast<void>(batch);
  const auto example = std::size_t{4} * (15 + 8) + 8 + 8 * (15 + 30);  // x, boxes, y and masks
  EXPECT_EQ(fake->device.statistics().to_device.bytes, n * example);
  EXPECT_EQ(fake->pinned.allocator().statistics().by_role[static_cast<int>(memory::Role::workspace)].peak, 0u)
      << "nothing is staged";
}

TEST_P(CopierFields, AreWaitedForBeforeTheNextBatchIsSent) {
  const TensorDataset set = scenes(DType::i64);
  DataLoader loader(set, options(gpu));
  const auto it = loader.begin();
  std::vector<std::string> expected(5, "copy on 15");
  expected.insert(expected.end(), 5, "15>0");
  expected.insert(expected.end(), 5, "copy on 15");
  EXPECT_EQ(fake->done, expected);
}

TEST_P(CopierFields, AreAPairToALoop) {
  const TensorDataset set = scenes(DType::i64);
  DataLoader loader(set, options(Device::cpu()));
  std::int64_t seen = 0;
  for (const auto& [x, y] : loader) {
    EXPECT_EQ(x.shape(), (Shape{y.size(0), 3, 5}));
    seen += y.numel();
  }
  EXPECT_EQ(seen, n);
}

TEST_P(CopierFields, ArePredicted) {
  const Device meta = Device::meta();
  const TensorDataset set(zeros({n, 3, 5}, DType::u8), arange(n), {},
                          {{"mask", zeros({n, 3, 5}, DType::i64), true}, {"boxes", zeros({n, 2, 4})}}),
      meta_set(empty({n, 3, 5}, DType::u8, meta), empty(n, DType::i64, meta), {},
               {{"mask", empty({n, 3, 5}, DType::i64, meta), true}, {"boxes", empty({n, 2, 4}, DType::f32, meta)}});
  for (const bool normalize : {false, true})
    for (const bool augment : {false, true}) {
      const auto program = [&](Device device) {
        auto o = options(device);
        if (normalize) o.normalize = mnist_normalize;
        if (augment) o.augment = {.crop_padding = 1, .flip = 0.5};
        DataLoader loader(device.is_meta ? meta_set : set, o);
        for (int epoch = 0; epoch < 2; ++epoch)
          for (const Batch& batch : loader) batch["boxes"] + batch["boxes"];
      };
      program(gpu);
      program(meta_gpu);
      const auto there = fake->device.snapshot().events;
      EXPECT_GE(there.size(), 2u * 3 * 5 * 2) << "four tensors and a sum";
      EXPECT_EQ(test::first_difference(there, fake->twin.snapshot().events), "");
      EXPECT_EQ(test::first_difference(fake->pinned.allocator().snapshot().events,
                                       fake->pinned_twin.allocator().snapshot().events),
                "");
    }
}

/// Examples with these fields, which are not written.
class WithFields : public Dataset {
 public:
  explicit WithFields(std::vector<Field> fields) : fields_(std::move(fields)) {}
  std::int64_t size() const override { return 4; }
  ExampleSpec example() const override { return {{3, 5}, DType::f32, {}, DType::i64, fields_}; }

 protected:
  void fill(std::span<const std::int64_t>, Tensor&, Tensor&) const override {}

 private:
  std::vector<Field> fields_;
};

class WithEmptyFields final : public WithFields {
  using WithFields::WithFields;
  void fill_more(std::span<const std::int64_t>, Batch&) const override {}
};

TEST_P(CopierFields, ArePredictedOnTheCpu) {
  const WithEmptyFields set({{"mask", {2, 3, 5}, DType::i64, true}, {"boxes", {2, 4}}});
  const auto program = [&](Device device) {
    auto o = options(device);
    o.augment = {.crop_padding = 1, .flip = 0.5};
    DataLoader loader(set, o);
    for (const Batch& batch : loader) batch["boxes"] + batch["boxes"];
  };
  const auto on_cpu = test::record_events(Device::cpu(), program);
  EXPECT_GE(on_cpu.size(), 2u * (4 + 3)) << "four tensors, two moved ones and a sum";
  EXPECT_EQ(test::first_difference(on_cpu, test::record_events(Device::meta(), program)), "");
}

TEST_P(CopierFields, AreChecked) {
  auto o = options(gpu);
  const auto refused = [&](const std::vector<Field>& fields, const std::string& words) {
    const WithFields set(fields);
    EXPECT_THROWS_SAYING(DataLoader(set, o), ValueError, words);
  };
  refused({{"mask", {3, 5}}, {"mask", {}}}, "DataLoader: two fields are named 'mask'");
  refused({{"x", {3, 5}}}, "DataLoader: a field is named 'x'");
  refused({{"", {3, 5}}}, "DataLoader: a field has no name");
  const Field turned{.name = "mask", .shape = {5, 3}, .moves_with_x = true};
  const WithFields other({turned}), free({{"mask", {5, 3}}});
  EXPECT_NO_THROW(DataLoader(other, o)) << "nothing moves";
  o.augment = {.cutout = 1};
  EXPECT_NO_THROW(DataLoader(other, o)) << "cutout moves nothing";
  for (const Augmentation& moving : {Augmentation{.crop_padding = 1}, Augmentation{.flip = 0.5}}) {
    o.augment = moving;
    refused({{"boxes", {4}}, turned},
            "DataLoader: augment moves the pixels of x, (3, 5), but cannot move those of 'mask', (5, 3): expected "
            "images (h, w) or (k, h, w) of the same size");
    EXPECT_NO_THROW(DataLoader(free, o)) << "the field does not move with x";
  }
}

TEST_P(CopierFields, ThatTheDatasetDoesNotWriteAreAnError) {
  const WithFields set({{"mask", {3, 5}}});
  DataLoader loader(set, options(gpu));
  EXPECT_THROWS_SAYING(loader.begin(), NotImplemented, "collate: example() has the field 'mask' beside x and y");
}

INSTANTIATE_TEST_SUITE_P(Loader, CopierFields, testing::Values(0, 1, 3));

}  // namespace
}  // namespace bytetape::data
