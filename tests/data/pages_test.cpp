// The code of docs/data.md and docs/saving.md, which quote it.
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
