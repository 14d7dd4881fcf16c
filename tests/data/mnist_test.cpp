#include "bytetape/data/mnist.h"

#include <iostream>

#include "tests/data/files.h"
#include "tests/support/source_dir.h"

namespace bytetape::data {
namespace {

using testing::HasSubstr;

Bytes pixels(std::uint32_t n, std::uint32_t side = 28) {
  Bytes b = idx_header(0x08, {n, side, side});
  for (std::uint32_t i = 0; i < n * side * side; ++i) b.push_back(static_cast<std::byte>(i * 7 + 3));
  return b;
}
Bytes digits(std::initializer_list<int> labels) {
  return idx_header(0x08, {static_cast<std::uint32_t>(labels.size())}) + bytes(labels);
}

/// A small MNIST: the training files compressed, the test files not.
class MnistTest : public testing::Test {
 protected:
  void write_all(const std::string& below = "") {
    dir_.write(below + "train-images-idx3-ubyte.gz", gzip(pixels(3)));
    dir_.write(below + "train-labels-idx1-ubyte.gz", gzip(digits({7, 0, 9})));
    dir_.write(below + "t10k-images-idx3-ubyte", pixels(2));
    dir_.write(below + "t10k-labels-idx1-ubyte", digits({4, 5}));
  }
  std::string load_error(Split split = Split::test) {
    return error_of<FileError>([&] { load_mnist(dir_.path(), split); });
  }

  TemporaryDir dir_;
  Environment no_data_{"BYTETAPE_DATA", {}}, no_cache_{"XDG_CACHE_HOME", {}}, home_{"HOME", dir_.path() / "home"};
};

TEST_F(MnistTest, LoadsBothSplits) {
  write_all();
  const Mnist train = load_mnist(dir_.path(), Split::train);
  EXPECT_EQ(train.name, "MNIST");
  EXPECT_EQ(train.images.shape(), (Shape{3, 28, 28}));
  EXPECT_EQ(train.images.dtype(), DType::u8);
  EXPECT_EQ(std::as_const(train.images).data<std::uint8_t>()[1000], static_cast<std::uint8_t>(1000 * 7 + 3));
  EXPECT_EQ(train.labels.dtype(), DType::i64);
  EXPECT_EQ(train.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 0, 9}));
  const Mnist test = load_mnist(dir_.path(), Split::test);
  EXPECT_EQ(test.images.size(0), 2);
  EXPECT_EQ(test.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{4, 5}));
}

TEST_F(MnistTest, APlainFileComesBeforeACompressedOne) {
  write_all();
  dir_.write("t10k-images-idx3-ubyte.gz", gzip(pixels(3)));
  dir_.write("t10k-labels-idx1-ubyte.gz", gzip(digits({7, 7, 7})));
  EXPECT_EQ(load_mnist(dir_.path(), Split::test).labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{4, 5}));
}

TEST_F(MnistTest, FindsAnExplicitFolderOrItsMnist) {
  write_all("mnist/");
  EXPECT_EQ(find_mnist(dir_.path()), dir_.path() / "mnist");
  EXPECT_EQ(find_mnist(dir_.path() / "mnist"), dir_.path() / "mnist");
}

TEST_F(MnistTest, AnExplicitFolderMustHoldTheFiles) {
  write_all();
  std::filesystem::remove(dir_.path() / "t10k-labels-idx1-ubyte");
  EXPECT_THAT(
      error_of<FileError>([&] { find_mnist(dir_.path()); }),
      HasSubstr(dir_.path().string() + ": expected MNIST's four files, but t10k-labels-idx1-ubyte[.gz] is missing"));
}

TEST_F(MnistTest, AnExplicitFolderMustBeThere) {
  const auto fault = [&](const char* name) { return error_of<FileError>([&] { find_mnist(dir_.path() / name); }); };
  EXPECT_THAT(fault("nowhere"), HasSubstr("/nowhere: cannot read this folder: No such file or directory"));
  dir_.write("file", {});
  EXPECT_THAT(fault("file"), HasSubstr("/file: cannot read this folder: Not a directory"));
}

TEST_F(MnistTest, AnExplicitFolderMustBeReadable) { expect_must_be_readable(find_mnist, dir_.path()); }

TEST_F(MnistTest, TheEnvironmentsFolderMustBeThereUnlessTheCacheHasTheFiles) {
  const Environment data("BYTETAPE_DATA", dir_.path() / "data");
  EXPECT_EQ(error_of<FileError>([] { find_mnist(); }), "$BYTETAPE_DATA, " + (dir_.path() / "data").string() +
                                                           ": cannot read this folder: No such file or directory");
  std::filesystem::create_directory(dir_.path() / "data");
  EXPECT_EQ(find_mnist(), std::nullopt);
}

TEST_F(MnistTest, LooksInTheEnvironmentThenInTheCache) {
  EXPECT_EQ(find_mnist(), std::nullopt);
  write_all("home/.cache/bytetape/mnist/");
  EXPECT_EQ(find_mnist(), dir_.path() / "home/.cache/bytetape/mnist");
  write_all("xdg/bytetape/mnist/");
  const Environment cache("XDG_CACHE_HOME", dir_.path() / "xdg");
  EXPECT_EQ(find_mnist(), dir_.path() / "xdg/bytetape/mnist");
  const Environment data("BYTETAPE_DATA", dir_.path() / "data");
  EXPECT_EQ(find_mnist(), dir_.path() / "xdg/bytetape/mnist") << "an unfit $BYTETAPE_DATA falls through";
  write_all("data/mnist/");
  EXPECT_EQ(find_mnist(), dir_.path() / "data/mnist");
  write_all("data/");
  EXPECT_EQ(find_mnist(), dir_.path() / "data");
}

TEST_F(MnistTest, SaysWhereItLooks) {
  using testing::ElementsAre;
  const std::filesystem::path dir = dir_.path(), cache = dir / "home/.cache/bytetape/mnist";
  EXPECT_THAT(mnist_folders(), ElementsAre(cache));
  EXPECT_THAT(mnist_folders(dir), ElementsAre(dir, dir / "mnist"));
  const Environment data("BYTETAPE_DATA", dir / "data");
  EXPECT_THAT(mnist_folders(), ElementsAre(dir / "data", dir / "data/mnist", cache));
  EXPECT_THAT(mnist_folders(dir), ElementsAre(dir, dir / "mnist"));
}

TEST_F(MnistTest, TakesAnEmptyVariableAsUnset) {
  using testing::ElementsAre;
  const Environment data("BYTETAPE_DATA", ""), cache("XDG_CACHE_HOME", "");
  EXPECT_THAT(mnist_folders(), ElementsAre(dir_.path() / "home/.cache/bytetape/mnist"));
  EXPECT_EQ(find_mnist(), std::nullopt);
  const Environment no_home("HOME", {});
  EXPECT_THAT(mnist_folders(), ElementsAre(".cache/bytetape/mnist"));
}

TEST_F(MnistTest, CountsMustAgree) {
  write_all();
  dir_.write("t10k-labels-idx1-ubyte", digits({1, 2, 3}));
  EXPECT_EQ(load_error(), (dir_.path() / "t10k-labels-idx1-ubyte").string() +
                              ": expected 2 labels, one for each image in t10k-images-idx3-ubyte, found 3");
}

TEST_F(MnistTest, ImagesMustBe28By28) {
  write_all();
  dir_.write("t10k-images-idx3-ubyte", pixels(2, 27));
  EXPECT_THAT(load_error(), HasSubstr("t10k-images-idx3-ubyte: expected images u8(n, 28, 28), found u8(2, 27, 27)"));
  dir_.write("t10k-images-idx3-ubyte", digits({1, 2}));
  EXPECT_THAT(load_error(), HasSubstr("found u8(2,)"));
  const auto found = [&](int code, const std::vector<std::uint32_t>& shape, std::size_t bytes) {
    dir_.write("t10k-images-idx3-ubyte", idx_header(code, shape) + Bytes(bytes));
    return load_error();
  };
  EXPECT_THAT(found(0x08, {2, 28, 27}, 2 * 28 * 27), HasSubstr("found u8(2, 28, 27)"));
  EXPECT_THAT(found(0x08, {2, 27, 28}, 2 * 27 * 28), HasSubstr("found u8(2, 27, 28)"));
  EXPECT_THAT(found(0x09, {2, 28, 28}, 2 * 28 * 28), HasSubstr("found i32(2, 28, 28)"));
}

TEST_F(MnistTest, LabelsMustBeDigits) {
  write_all();
  dir_.write("t10k-labels-idx1-ubyte", digits({3, 10}));
  EXPECT_THAT(load_error(), HasSubstr("t10k-labels-idx1-ubyte: expected labels 0 to 9, found 10 at 1"));
  dir_.write("t10k-labels-idx1-ubyte", pixels(2));
  EXPECT_THAT(load_error(), HasSubstr("expected labels u8(n,), found u8(2, 28, 28)"));
  dir_.write("t10k-labels-idx1-ubyte", idx_header(0x09, {2}) + bytes({3, 4}));
  EXPECT_THAT(load_error(), HasSubstr("expected labels u8(n,), found i32(2,)"));
}

TEST_F(MnistTest, CorruptAndMissingFilesAreNamed) {
  write_all();
  dir_.write("train-images-idx3-ubyte.gz", bytes({0x1f, 0x8b, 8, 0}));
  EXPECT_THAT(load_error(Split::train), HasSubstr("train-images-idx3-ubyte.gz: expected a complete gzip stream"));
  std::filesystem::remove(dir_.path() / "train-images-idx3-ubyte.gz");
  EXPECT_THAT(load_error(Split::train), HasSubstr("train-images-idx3-ubyte[.gz] is missing"));
}

// The real data lies in $BYTETAPE_DATA, in the cache, or in shared/data beside the checkout.
TEST(RealMnist, IsWhatItIs) {
  auto dir = find_mnist();
  const auto beside = test::source_dir() / "../shared/data";
  if (!dir && std::filesystem::is_directory(beside)) dir = find_mnist(beside);
  if (!dir) {
    std::cout << "[   NOTE   ] MNIST is not on this machine: only generated files were tested\n";
    return;
  }
  std::cout << "[   NOTE   ] MNIST from " << dir->string() << '\n';
  const Mnist train = load_mnist(*dir, Split::train), test = load_mnist(*dir, Split::test);
  EXPECT_EQ(train.images.shape(), (Shape{60000, 28, 28}));
  EXPECT_EQ(test.images.shape(), (Shape{10000, 28, 28}));
  const auto* labels = std::as_const(train.labels).data<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(labels, labels + 10), (std::vector<std::int64_t>{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}));
  double sum = 0;
  const auto* pixel = std::as_const(train.images).data<std::uint8_t>();
  for (std::int64_t i = 0; i < train.images.numel(); ++i) sum += pixel[i];
  EXPECT_NEAR(sum / 255 / static_cast<double>(train.images.numel()), 0.1307, 5e-5);
}

}  // namespace
}  // namespace bytetape::data
