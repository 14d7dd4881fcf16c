// The code of docs/data.md and docs/saving.md, which quote it.
#include <algorithm>
#include <utility>

#include "bytetape/bytetape.h"
#include "tests/data/files.h"

namespace bytetape {
namespace {

/// A folder of its own, which is the working one and $BYTETAPE_DATA.
class Pages : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::current_path(dir_.path()); }
  void TearDown() override { std::filesystem::current_path(before_); }

  /// `n` records of noise, a label byte and `pixels` bytes each.
  void write_records(const std::string& name, std::int64_t n, std::int64_t pixels) const {
    data::Bytes all;
    for (std::int64_t i = 0; i < n * (pixels + 1); ++i)
      all.push_back(static_cast<std::byte>(i % (pixels + 1) == 0 ? i % 10 : i * 7));
    dir_.write(name, all);
  }

  const std::filesystem::path before_ = std::filesystem::current_path();
  data::TemporaryDir dir_;
  const data::Environment data_{"BYTETAPE_DATA", dir_.path()};
};

TEST_F(Pages, Cifar10IsTrainedOn) {
  for (const std::string name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"})
    write_records(name + ".bin", 30, 3 * 32 * 32);
  write_records("test_batch.bin", 2, 3 * 32 * 32);
  std::int64_t images_seen = 0;
  const auto train = [&](const Tensor& x, const Tensor& y) {
    EXPECT_EQ(x.shape(), (Shape{y.size(0), 3, 32, 32}));
    images_seen += y.size(0);
  };
  const data::Cifar10 cifar = data::load_cifar10(*data::find_cifar10(), data::Split::train);
  const data::ResidentImages images(cifar.images, cifar.labels, data::cifar10_normalize);
  const Augmentation augment{.crop_padding = 4, .padding_mode = PaddingMode::reflect, .flip = 0.5, .cutout = 8};
  data::ResidentLoader loader(images, {.batch_size = 128, .shuffle = true, .augment = augment});
  for (const auto& [x, y] : loader) train(x, y);
  EXPECT_EQ(images_seen, 150);
}

TEST_F(Pages, TextIsCutIntoWindows) {
  test::set_content("plays.txt", std::string(129 * 3, 'a') + "bc");
  std::int64_t tokens_seen = 0;
  const auto train = [&](const Tensor& x, const Tensor& y) {
    EXPECT_EQ(x.shape(), y.shape());
    tokens_seen += x.numel();
  };
  const std::string text = data::read_text("plays.txt");
  const data::CharTokenizer tokenizer(text);
  const data::ResidentTokens windows(tokenizer.encode(text), /*length=*/128);
  data::ResidentLoader loader(windows, {.batch_size = 32, .shuffle = true});
  for (const auto& [x, y] : loader) train(x, y);
  EXPECT_EQ(tokens_seen, 3 * 128);
}

TEST_F(Pages, ALoaderLeavesLargeFilesWhereTheyAre) {
  for (const char* name : {"part1.bin", "part2.bin"}) write_records(name, 5, 3 * 96 * 96);
  const std::vector<std::int64_t> indices{1, 3, 5, 7, 9};
  const data::ImageRecords photos({"part1.bin", "part2.bin"}, {3, 96, 96}, /*classes=*/10);
  data::DataLoader loader(photos, {.batch_size = 64,
                                   .workers = 4,
                                   .sampler = std::make_shared<data::SubsetRandomSampler>(indices),
                                   .normalize = data::cifar10_normalize});
  EXPECT_EQ(loader.begin()->x.shape(), (Shape{5, 3, 96, 96}));
}

TEST_F(Pages, BatchesHaveMasksAndWeights) {
  const Tensor images = randint(0, 256, {9, 3, 8, 8}, DType::u8), labels = arange(9), weights = rand({9}),
               masks = to(select(images, 1, 0), DType::i64);
  std::int64_t images_seen = 0;
  const auto train = [&](const Tensor& x, const Tensor& mask, const Tensor& weights) {
    const auto first = select(x, 1, 0).to_vector<float>();
    const auto pixels = mask.to_vector<int>();
    for (std::size_t i = 0; i < first.size(); ++i)
      ASSERT_EQ(first[i], static_cast<float>(data::cifar10_normalize(pixels[i], 0)));
    EXPECT_EQ(weights.shape(), (Shape{x.size(0)}));
    images_seen += x.size(0);
  };
  const data::TensorDataset scenes(images, labels, /*normalize=*/{},
                                   {{.name = "mask", .rows = masks, .moves_with_x = true}, {"weight", weights}});
  data::DataLoader loader(scenes, {.batch_size = 4,
                                   .normalize = data::cifar10_normalize,
                                   .augment = {.padding_mode = PaddingMode::reflect, .flip = 0.5}});
  for (const data::Batch& batch : loader) train(batch.x, batch["mask"], batch["weight"]);
  EXPECT_EQ(images_seen, 9);
}

/// Example i has the label i, and a mask and boxes of the value i.
class Photos final : public data::Dataset {
 public:
  std::int64_t size() const override { return 5; }
  data::ExampleSpec example() const override {
    return {.x_shape = {3, 64, 64},
            .x_dtype = DType::u8,
            .more = {{.name = "mask", .shape = {64, 64}, .dtype = DType::u8, .moves_with_x = true},
                     {.name = "boxes", .shape = {16, 4}}}};
  }

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const override {
    std::fill_n(x.data<std::uint8_t>(), x.numel(), std::uint8_t{7});
    std::copy(indices.begin(), indices.end(), y.data<std::int64_t>());
  }
  void fill_more(std::span<const std::int64_t> indices, data::Batch& batch) const override {
    auto* mask = batch["mask"].data<std::uint8_t>();
    auto* boxes = batch["boxes"].data<float>();
    for (const std::int64_t i : indices) {
      read_mask(i, std::exchange(mask, mask + 64 * 64));
      read_boxes(i, std::exchange(boxes, boxes + 16 * 4));
    }
  }

 private:
  static void read_mask(std::int64_t i, std::uint8_t* to) { std::fill_n(to, 64 * 64, static_cast<std::uint8_t>(i)); }
  static void read_boxes(std::int64_t i, float* to) { std::fill_n(to, 16 * 4, static_cast<float>(i)); }
};

TEST_F(Pages, ADatasetWritesMasksAndBoxes) {
  const Photos photos;
  const data::Batch batch = photos.get(std::vector<std::int64_t>{4, 2});
  EXPECT_EQ(batch["mask"].to_vector<int>()[64 * 64], 2);
  EXPECT_EQ(batch["boxes"].to_vector<int>()[0], 4);
  EXPECT_EQ(batch["boxes"].to_vector<int>().back(), 2);
}

TEST_F(Pages, TensorsGoToFilesAndComeBack) {
  const nn::Linear net(3, 2);
  save_safetensors("net.safetensors", net.state_dict());
  load_safetensors_into("net.safetensors", net.state_dict());  // straight to where the parameters are
  const NamedTensors weights = load_safetensors("net.safetensors");
  save_npy("weight.npy", net.weight);
  const Tensor weight = load_npy("weight.npy");
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weight.to_vector<float>(), net.weight.detach().to_vector<float>());
}

}  // namespace
}  // namespace bytetape
