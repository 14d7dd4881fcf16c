#include "bytetape/data/records.h"
#include "bytetape/core/memory/stats.h"

#include "bytetape/core/device/backend.h"
#include "bytetape/data/loader.h"
#include "tests/data/files.h"

namespace bytetape::data {
namespace {

using testing::ElementsAre;

const Shape image{2, 1, 3};  // 6 bytes

/// Record i has the label i % 5 and the pixels 10 i, 10 i + 1, ...
Bytes records(int first, int n) {
  Bytes all;
  for (int i = first; i < first + n; ++i) {
    all.push_back(static_cast<std::byte>(i % 5));
    for (int k = 0; k < 6; ++k) all.push_back(static_cast<std::byte>(10 * i + k));
  }
  return all;
}

class Records : public testing::Test {
 protected:
  std::string open_error(const std::filesystem::path& path) {
    return error_of<FileError>([&] { ImageRecords({path}, image, 5); });
  }
  TemporaryDir dir_;
};

TEST_F(Records, AreReadFromAllFilesInTurn) {
  const ImageRecords set(
      {dir_.write("a", records(0, 3)), dir_.write("b", records(3, 1)), dir_.write("c", records(4, 4))}, image, 5);
  EXPECT_EQ(set.size(), 8);
  const Batch batch = set.get(std::vector<std::int64_t>{7, 3, 0, 4, 2});
  EXPECT_EQ(batch.x.shape(), (Shape{5, 2, 1, 3}));
  EXPECT_EQ(batch.x.dtype(), DType::u8);
  EXPECT_THAT(batch.y.to_vector<std::int64_t>(), ElementsAre(2, 3, 0, 4, 2));
  const auto pixels = batch.x.to_vector<std::int64_t>();
  for (std::size_t k = 0; k < 6; ++k) {
    const auto at = static_cast<std::int64_t>(k);
    EXPECT_EQ(pixels[k], 70 + at);
    EXPECT_EQ(pixels[6 + k], 30 + at);
    EXPECT_EQ(pixels[24 + k], 20 + at);
  }
  const Batch all = set.read_all();
  EXPECT_THAT(all.y.to_vector<std::int64_t>(), ElementsAre(0, 1, 2, 3, 4, 0, 1, 2));
  EXPECT_EQ(all.x.to_vector<std::int64_t>()[6 * 7 + 5], 75);
}

TEST_F(Records, MayLieInMemory) {
  const Bytes all = records(0, 3);
  const ImageRecords set(memory_input(all, "memory"), image, 5);
  EXPECT_THAT(set.read_all().y.to_vector<std::int64_t>(), ElementsAre(0, 1, 2));
  EXPECT_EQ(error_of<FileError>([&] { ImageRecords(memory_input(all, "memory"), {6}, 2).read_all(); }),
            "ImageRecords: memory: at byte 14: expected a label 0 to 1, found 2");
}

TEST_F(Records, AreWholeOnes) {
  for (const int more : {1, 6}) {
    const auto path = dir_.write("cut", records(0, 2) + Bytes(static_cast<std::size_t>(more)));
    EXPECT_EQ(open_error(path), "ImageRecords: " + path.string() +
                                    ": at byte 14: expected whole records of 7 bytes, found " + std::to_string(more));
  }
  const auto path = dir_.write("none", {});
  EXPECT_EQ(open_error(path),
            "ImageRecords: " + path.string() + ": at byte 0: expected whole records of 7 bytes, found 0");
}

TEST_F(Records, LieInFiles) {
  const auto nowhere = dir_.path() / "nowhere";
  EXPECT_EQ(open_error(nowhere), "ImageRecords: " + nowhere.string() + ": no such file");
  EXPECT_EQ(open_error(dir_.path()), "ImageRecords: " + dir_.path().string() + ": expected a file, found a directory");
}

TEST_F(Records, HaveLabelsThatAreClasses) {
  Bytes wrong = records(0, 4);
  wrong[14] = std::byte{5};
  const auto path = dir_.write("wrong", wrong);
  const ImageRecords set({dir_.write("right", records(0, 2)), path}, image, 5);
  EXPECT_NO_THROW(set.get(std::vector<std::int64_t>{0, 1, 2, 3, 5}));
  const std::string words = path.string() + ": at byte 14: expected a label 0 to 4, found 5";
  EXPECT_EQ(error_of<FileError>([&] { set.get(std::vector<std::int64_t>{4}); }), "collate: " + words);
  EXPECT_EQ(error_of<FileError>([&] { set.read_all(); }), "ImageRecords: " + words);
  EXPECT_NO_THROW(ImageRecords({path}, image, 6).read_all());
}

TEST_F(Records, MayNotVanishWhileTheyAreRead) {
  const auto path = dir_.write("file", records(0, 4));
  const ImageRecords set({path}, image, 5);
  std::filesystem::resize_file(path, 17);
  EXPECT_NO_THROW(set.get(std::vector<std::int64_t>{1}));
  EXPECT_EQ(error_of<FileError>([&] { set.get(std::vector<std::int64_t>{2}); }),
            "collate: " + path.string() + ": at byte 15: expected 6 bytes, found 2");
  EXPECT_EQ(error_of<FileError>([&] { set.get(std::vector<std::int64_t>{3}); }),
            "collate: " + path.string() + ": at byte 21: expected 1 bytes, found 0");
}

TEST_F(Records, OptionsAreChecked) {
  const auto path = dir_.write("file", records(0, 1));
  const auto message = [&](const std::vector<std::filesystem::path>& files, int classes) {
    return error_of<ValueError>([&] { ImageRecords(files, image, classes); });
  };
  EXPECT_EQ(message({}, 5), "ImageRecords: expected at least one file");
  EXPECT_EQ(message({path}, 0), "ImageRecords: expected 1 to 256 classes, because a label is a byte, got 0");
  EXPECT_EQ(message({path}, 257), "ImageRecords: expected 1 to 256 classes, because a label is a byte, got 257");
  EXPECT_NO_THROW(ImageRecords({path}, image, 1).read_all());
  EXPECT_NO_THROW(ImageRecords({path}, image, 256).read_all());
  EXPECT_EQ(error_of<ShapeError>([&] {
              ImageRecords({path}, {3, 0}, 5);
            }),
            "ImageRecords: expected images with pixels, got (3, 0)");
}

// 2 GiB of zeros, which take no room on the disk: far more than the loader may hold.
TEST_F(Records, LargerThanMemoryTakeThatOfTheirBatches) {
  const auto path = dir_.write("large", {});
  const Shape photo{3, 128, 128};
  const auto record = static_cast<std::uintmax_t>(numel(photo)) + 1;
  constexpr std::int64_t files = 4, each = 10922;
  std::filesystem::resize_file(path, record * each);
  const ImageRecords set(std::vector(files, path), photo, 2);
  EXPECT_EQ(set.size(), files * each);

  memory::empty_cache(Device::cpu());
  memory::reset_peaks(Device::cpu());
  const auto inputs = [&] { return memory::stats(Device::cpu()).by_role[static_cast<int>(memory::Role::input)]; };
  const std::size_t before = inputs().current;
  const DataLoaderOptions options{.batch_size = 32, .shuffle = true, .workers = 2, .prefetch = 3};
  DataLoader loader(set, options);
  int batches = 0;
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.x.size(0), 32);
    if (++batches == 40) break;
  }
  const std::size_t batch = 32 * static_cast<std::size_t>(numel(photo)) + 512;  // with its labels
  EXPECT_GE(inputs().peak - before, batch);
  EXPECT_LE(inputs().peak - before, static_cast<std::size_t>(options.prefetch + 1) * batch);
}

}  // namespace
}  // namespace bytetape::data
