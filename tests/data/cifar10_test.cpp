#include "bytetape/data/cifar10.h"

#include <iostream>

#include "tests/data/files.h"

namespace bytetape::data {
namespace {

using testing::ElementsAre;

constexpr std::size_t record = 1 + 3 * 32 * 32;

/// Images of one colour each: red 1, green 2, blue 3, plus the label.
Bytes batch(std::initializer_list<int> labels) {
  Bytes all;
  for (const int label : labels) {
    all.push_back(static_cast<std::byte>(label));
    for (int plane = 1; plane <= 3; ++plane) all.insert(all.end(), 32 * 32, static_cast<std::byte>(plane + label));
  }
  return all;
}

/// A small CIFAR-10: seven images to train on, two to test on.
class Cifar10Test : public testing::Test {
 protected:
  void write_all(const std::string& below = "") {
    int n = 1;
    for (const auto& labels : {std::initializer_list<int>{6, 9}, {0}, {4, 1}, {1}, {2}})
      dir_.write(below + "data_batch_" + std::to_string(n++) + ".bin", batch(labels));
    dir_.write(below + "test_batch.bin", batch({3, 8}));
  }
  TemporaryDir dir_;
  Environment no_data_{"BYTETAPE_DATA", {}}, no_cache_{"XDG_CACHE_HOME", {}}, home_{"HOME", dir_.path() / "home"};
};

TEST_F(Cifar10Test, LoadsBothSplits) {
  write_all();
  const Cifar10 train = load_cifar10(dir_.path(), Split::train);
  EXPECT_EQ(train.images.shape(), (Shape{7, 3, 32, 32}));
  EXPECT_EQ(train.images.dtype(), DType::u8);
  EXPECT_EQ(train.images.storage().role(), memory::Role::input);
  EXPECT_THAT(train.labels.to_vector<std::int64_t>(), ElementsAre(6, 9, 0, 4, 1, 1, 2));
  const auto pixels = train.images.to_vector<std::int64_t>();
  EXPECT_EQ(pixels[0], 7);
  EXPECT_EQ(pixels[1024], 8);
  EXPECT_EQ(pixels[2 * 3072 - 1], 12);
  const Cifar10 test = load_cifar10(dir_.path(), Split::test);
  EXPECT_THAT(test.labels.to_vector<std::int64_t>(), ElementsAre(3, 8));
  EXPECT_STREQ(cifar10_classes[3], "cat");
  EXPECT_STREQ(cifar10_classes[8], "ship");
}

TEST_F(Cifar10Test, LooksWhereItSays) {
  const auto dir = dir_.path(), cache = dir / "home/.cache/bytetape/cifar-10-batches-bin";
  EXPECT_THAT(cifar10_folders(), ElementsAre(cache));
  EXPECT_THAT(cifar10_folders(dir), ElementsAre(dir, dir / "cifar-10-batches-bin"));
  EXPECT_EQ(find_cifar10(), std::nullopt);
  write_all("home/.cache/bytetape/cifar-10-batches-bin/");
  EXPECT_EQ(find_cifar10(), cache);
  const Environment data("BYTETAPE_DATA", dir / "data");
  EXPECT_THAT(cifar10_folders(), ElementsAre(dir / "data", dir / "data/cifar-10-batches-bin", cache));
  EXPECT_EQ(find_cifar10(), cache);
  write_all("data/cifar-10-batches-bin/");
  EXPECT_EQ(find_cifar10(), dir / "data/cifar-10-batches-bin");
  EXPECT_EQ(find_cifar10(dir / "data"), dir / "data/cifar-10-batches-bin");
}

TEST_F(Cifar10Test, AnExplicitFolderMustHoldTheFiles) {
  write_all();
  std::filesystem::remove(dir_.path() / "data_batch_4.bin");
  EXPECT_EQ(error_of<FileError>([&] { find_cifar10(dir_.path()); }),
            dir_.path().string() + ": expected CIFAR-10's six files, but data_batch_4.bin is missing");
}

TEST_F(Cifar10Test, AnExplicitFolderMustBeThereAndReadable) {
  EXPECT_EQ(error_of<FileError>([&] { find_cifar10(dir_.path() / "nowhere"); }),
            (dir_.path() / "nowhere").string() + ": cannot read this folder: No such file or directory");
  expect_must_be_readable(find_cifar10, dir_.path());
}

TEST_F(Cifar10Test, CorruptFilesAreNamedWithTheOffset) {
  write_all();
  const auto path = dir_.write("data_batch_3.bin", batch({4, 10}));
  EXPECT_EQ(error_of<FileError>([&] { load_cifar10(dir_.path(), Split::train); }),
            "ImageRecords: " + path.string() + ": at byte 3073: expected a label 0 to 9, found 10");
  std::filesystem::resize_file(path, record + 100);
  EXPECT_EQ(error_of<FileError>([&] { load_cifar10(dir_.path(), Split::train); }),
            "ImageRecords: " + path.string() + ": at byte 3073: expected whole records of 3073 bytes, found 100");
}

// The real data, or the copy of it, lies in $BYTETAPE_DATA or in the cache.
TEST(RealCifar10, IsWhatItIs) {
  const auto dir = find_cifar10();
  if (!dir) {
    std::cout << "[   NOTE   ] CIFAR-10 is not on this machine: only generated files were tested\n";
    return;
  }
  std::cout << "[   NOTE   ] CIFAR-10 from " << dir->string() << '\n';
  for (const auto& [split, n] : {std::pair(Split::train, 50000), {Split::test, 10000}}) {
    const Cifar10 data = load_cifar10(*dir, split);
    EXPECT_EQ(data.images.shape(), (Shape{n, 3, 32, 32}));
    std::array<std::int64_t, 10> of_class{};
    for (const std::int64_t label : data.labels.to_vector<std::int64_t>())
      ++of_class.at(static_cast<std::size_t>(label));
    EXPECT_THAT(of_class, testing::Each(n / 10));
    if (split == Split::test) continue;
    const auto* pixel = std::as_const(data.images).data<std::uint8_t>();
    for (std::int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < 1024; ++k) sum += pixel[(i * 3 + c) * 1024 + k];
      EXPECT_NEAR(sum / 255 / 1024 / n, cifar10_normalize.mean[c], 2e-3) << "channel " << c;
    }
  }
}

}  // namespace
}  // namespace bytetape::data
