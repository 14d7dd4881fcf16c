#include "bytetape/core/files/safetensors.h"

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "bytetape/bytetape.h"
#include "bytetape/core/images/image_format.h"
#include "tests/support/expect.h"
#include "tests/support/file_limits.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"
#include "tests/support/stand_in.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

using test::content_of;
using test::make_tensor;
using test::random_tensor;
using testing::HasSubstr;

constexpr std::array all_dtypes{DType::u8,  DType::f64, DType::f32, DType::boolean,
                                DType::f16, DType::i64, DType::i32, DType::bf16};

class Safetensors : public testing::Test {
 protected:
  test::TemporaryDir dir_;
  const std::string path_ = dir_ / "some.safetensors";
};

/// Numbers that every dtype has, bool but for their size.
Tensor some(const Shape& shape, DType dtype) {
  static std::mt19937_64 random = test::generator_for("safetensors");
  std::vector<double> values;
  for (std::int64_t i = 0; i < numel(shape); ++i) values.push_back(static_cast<double>(random() % 100));
  return make_tensor(values, shape, dtype);
}

TEST_F(Safetensors, RoundTripOfEveryDtypeAndRank) {
  NamedTensors saved;
  for (const DType t : all_dtypes) {
    saved.emplace_back(std::string(to_string(t)) + ".scalar", some({}, t));
    saved.emplace_back(std::string(to_string(t)) + ".empty", some({3, 0, 2}, t));
    saved.emplace_back(std::string(to_string(t)) + ".some", some({2, 1, 3, 1, 2, 1, 2, 1}, t));
  }
  save_safetensors(path_, saved, {{"epoch", "3"}, {"größe", "\"\\\n"}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata(), (Metadata{{"epoch", "3"}, {"größe", "\"\\\n"}}));
  NamedTensors loaded = file.load(Device::cpu(), memory::Role::parameter);
  ASSERT_EQ(loaded.size(), saved.size());
  for (const auto& [name, x] : saved) {
    const auto y = std::find_if(loaded.begin(), loaded.end(), [&](const auto& t) { return t.first == name; });
    ASSERT_NE(y, loaded.end()) << name;
    EXPECT_EQ(y->second.dtype(), x.dtype());
    EXPECT_EQ(y->second.shape(), x.shape());
    EXPECT_EQ(y->second.to_vector<double>(), x.to_vector<double>()) << name;
    EXPECT_TRUE(x.numel() == 0 || y->second.storage().role() == memory::Role::parameter);
  }
}

TEST_F(Safetensors, KeepsEveryBit) {
  const double odd[] = {-0.0, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::quiet_NaN()};
  const Tensor x = from_vector(std::vector<double>(std::begin(odd), std::end(odd)));
  save_safetensors(path_, {{"x", x}});
  const NamedTensors loaded = load_safetensors(path_);
  EXPECT_EQ(std::memcmp(std::as_const(loaded[0].second).data<double>(), odd, sizeof odd), 0);
}

TEST_F(Safetensors, WideElementsComeFirstSoThatAllAreAligned) {
  save_safetensors(path_, {{"a", some({3}, DType::u8)}, {"b", some({1}, DType::f16)}, {"c", some({2}, DType::i64)}});
  std::string order;
  const SafetensorsFile file(path_);
  for (const TensorEntry& t : file.tensors()) {
    order += t.name;
    EXPECT_EQ(t.begin % size_of(t.dtype), 0u);
  }
  EXPECT_EQ(order, "cba");
  std::uint64_t length = 0;
  std::memcpy(&length, content_of(path_).data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
}

TEST_F(Safetensors, FilesAreRowMajorWhateverTheLayout) {
  const Tensor x = random_tensor({2, 3, 4, 5}, DType::f32);
  save_safetensors(path_, {{"x", x}});
  const std::string row_major = content_of(path_);
  for (const Tensor& y : {channels_last(x), permute(contiguous(permute(x, {3, 1, 0, 2})), {2, 1, 3, 0})}) {
    save_safetensors(path_, {{"x", y}});
    EXPECT_EQ(content_of(path_), row_major);
  }
  Tensor y = channels_last(zeros({2, 3, 4, 5}));
  load_safetensors_into(path_, {{"x", y}});
  EXPECT_TRUE(is_channels_last(y.shape(), y.strides()));
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
}

// Past the pieces' 4 MiB, cut within each dim.
TEST_F(Safetensors, MoreThanOnePiece) {
  constexpr std::int64_t piece = 1 << 20;
  for (const Shape& shape :
       {Shape{3, piece / 2 + 1}, Shape{2, piece + 3}, Shape{3, 7, piece / 9}, Shape{piece + 1, 2}}) {
    const Tensor x = rand(shape);
    save_safetensors(path_, {{"x", x}});
    EXPECT_TRUE(load_safetensors(path_)[0].second.to_vector<float>() == x.to_vector<float>()) << shape;
    const Tensor y = transpose(zeros({shape.back(), x.numel() / shape.back()}), 0, 1);
    save_safetensors(path_, {{"x", view(x, y.shape())}});
    load_safetensors_into(path_, {{"x", y}});
    EXPECT_TRUE(y.to_vector<float>() == x.to_vector<float>()) << shape;
  }
}

struct Net : nn::Module {
  nn::Conv2d conv{3, 4, 3};
  nn::BatchNorm2d norm{4};
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
  }
};

std::vector<std::vector<double>> values_of(const NamedTensors& tensors) {
  std::vector<std::vector<double>> all;
  for (const auto& [name, x] : tensors) all.push_back(x.to_vector<double>());
  return all;
}

TEST_F(Safetensors, AModelIsSavedAndLoadedInPlace) {
  Net a, b;
  normal_(a.norm.running_mean);
  save_safetensors(path_, a.state_dict());
  EXPECT_EQ(SafetensorsFile(path_).tensors().front().name, "norm.num_batches_tracked");
  const Tensor weight = b.conv.weight;
  const Tensor loss = sum(b.conv(random_tensor({1, 3, 4, 4}, DType::f32)) * 2);
  load_safetensors_into(path_, b.state_dict());
  EXPECT_EQ(values_of(a.state_dict()), values_of(b.state_dict()));
  EXPECT_TRUE(weight.is_same(b.conv.weight) && weight.requires_grad() && weight.is_leaf());
  EXPECT_EQ(weight.storage().role(), memory::Role::parameter);
  const Autocast autocast(DType::bf16);  // a lowered copy of before is no longer used
  const Tensor x = random_tensor({1, 3, 4, 4}, DType::f32);
  EXPECT_EQ(b.conv(x).to_vector<double>(), a.conv(x).to_vector<double>());
}

TEST_F(Safetensors, WhatBackwardNeedsIsNotOverwrittenUnseen) {
  nn::Linear fc(2, 2);
  save_safetensors(path_, fc.state_dict());
  Tensor x = random_tensor({1, 2}, DType::f32);
  x.set_requires_grad();
  const Tensor loss = sum(fc(x));
  load_safetensors_into(path_, fc.state_dict());
  EXPECT_THROW(loss.backward(), AutogradError);
}

TEST_F(Safetensors, DtypesAreConverted) {
  const Tensor x = random_tensor({300}, DType::f32), y = zeros({300}, DType::bf16);
  save_safetensors(path_, {{"x", x}});
  load_safetensors_into(path_, {{"x", y}});
  EXPECT_EQ(y.to_vector<float>(), to(x, DType::bf16).to_vector<float>());
}

TEST_F(Safetensors, WhatDoesNotFitChangesNothing) {
  nn::Linear fc(2, 3);
  const auto before = values_of(fc.state_dict());
  const auto refused = [&](const NamedTensors& saved) {
    save_safetensors(path_, saved);
    load_safetensors_into(path_, fc.state_dict());
  };
  const Tensor weight = ones({3, 2}), bias = ones({3});
  EXPECT_THROWS_SAYING(refused({{"weight", weight}, {"scale", bias}}), ValueError,
                       "load_safetensors_into: " + path_ + ": missing keys: [bias]; unexpected keys: [scale]");
  EXPECT_THROWS_SAYING(refused({{"weight", weight}, {"bias", ones({4}, DType::f64)}}), ShapeError,
                       path_ + ": 'bias' has shape (4,) in the file, but (3,) in the model");
  EXPECT_EQ(values_of(fc.state_dict()), before);
  save_safetensors(path_, {{"bias", bias}, {"scale", bias}});
  load_safetensors_into(path_, fc.state_dict(), /*strict=*/false);
  EXPECT_EQ(fc.bias.to_vector<double>(), std::vector<double>(3, 1));
  EXPECT_EQ(fc.weight.to_vector<double>(), before[0]);
  EXPECT_THROWS_SAYING(load_safetensors_into(path_, {{"bias", Tensor()}}, false), ValueError, "cannot be written to");
  EXPECT_THROW(load_safetensors_into(path_, {{"bias", expand(ones({1}), {3})}}, false), ValueError);
}

TEST_F(Safetensors, EveryDamagedBitIsFound) {
  nn::Linear fc(3, 2);
  save_safetensors(path_, fc.state_dict(), {{"epoch", "3"}});
  const auto before = values_of(fc.state_dict());
  const std::string whole = content_of(path_);
  // Before these it says that there is a checksum; without, it is a file as others write them.
  const std::size_t digits = whole.find(checksum_key) + std::strlen(checksum_key) + 3;
  for (std::size_t bit = 8 * digits; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    const auto load = [&] {
      SafetensorsFile(memory_input(std::as_bytes(std::span(damaged)), "x")).load_into(fc.state_dict(), true);
    };
    EXPECT_THROW(load(), FileError) << bit / 8;
  }
  EXPECT_EQ(values_of(fc.state_dict()), before);
  std::string damaged = whole;
  damaged.back() ^= 1;
  test::set_content(path_, damaged);
  EXPECT_THROWS_SAYING(load_safetensors(path_), FileError, "the file was damaged or changed since it was saved");
}

TEST_F(Safetensors, WhatCannotBeSaved) {
  const Tensor x = ones({2});
  const auto save = [&](const NamedTensors& tensors, const Metadata& metadata = {}) {
    save_safetensors(path_, tensors, metadata);
  };
  EXPECT_THROWS_SAYING(save({{"x", x}, {"x", x}}), ValueError, "save_safetensors: two tensors are called 'x'");
  EXPECT_THROWS_SAYING(save({{"__metadata__", x}}), ValueError, "must not be called '__metadata__'");
  EXPECT_THROWS_SAYING(save({{"x", Tensor()}}), ValueError, "'x' is undefined");
  EXPECT_THROWS_SAYING(save({{"\xff", x}}), ValueError, "is not UTF-8");
  EXPECT_THROWS_SAYING(save({{"x", x}}, {{"bytetape.crc32", "0"}}), ValueError, "begin with 'bytetape.'");
  EXPECT_THROWS_SAYING(save({{"x", zeros({2}, DType::f32, Device::meta())}}), DeviceError, "holds no data");
  EXPECT_EQ(dir_.files(), 0);
}

TEST_F(Safetensors, AHeaderThatCouldNotBeReadIsNotWritten) {
  EXPECT_THROWS_SAYING(save_safetensors(path_, {}, {{"text", std::string(most_header_bytes, 'x')}}), ValueError,
                       "expected a header of at most 100000000 bytes, got 1000");
  EXPECT_EQ(dir_.files(), 0);
}

TEST_F(Safetensors, FilesThatCannotBeReadOrWritten) {
  EXPECT_THROWS_SAYING(load_safetensors(path_), FileError, "load_safetensors: " + path_ + ": no such file");
  EXPECT_THROWS_SAYING(load_safetensors(dir_.path()), FileError, "expected a file, found a directory");
  EXPECT_THROWS_SAYING(save_safetensors(dir_ / "a/b", {}), FileError, "': No such file or directory");
  save_safetensors(path_, {{"x", ones({3})}});
  {
    const test::FileSizeLimit limit(1 << 16);
    EXPECT_THROWS_SAYING(save_safetensors(path_, {{"x", ones({1 << 16})}}), FileError, "': File too large");
  }
  EXPECT_EQ(load_safetensors(path_)[0].second.numel(), 3);
  EXPECT_EQ(dir_.files(), 1);
}

/// A file as others write it, of zeros that take no room on the disk.
void write_zeros(const std::string& path, const Shape& shape) {
  const std::size_t bytes = bytes_of(shape, DType::f32);
  std::string json = detail::concat(R"({"x":{"dtype":"F32","shape":[)", shape[0], ",", shape[1], ",", shape[2], ",",
                                    shape[3], R"(],"data_offsets":[0,)", bytes, "]}}");
  const std::uint64_t length = json.size();
  std::string header(sizeof length, ' ');
  std::memcpy(header.data(), &length, sizeof length);
  test::set_content(path, header + json);
  std::filesystem::resize_file(path, header.size() + json.size() + bytes);
}

TEST_F(Safetensors, LoadingToADeviceTakesFewPiecesOfTheHost) {
  const test::StandIn gpu;
  const Shape shape{48, 64, 128, 64};  // 96 MiB
  write_zeros(path_, shape);
  Tensor x = empty(shape, MemoryFormat::channels_last, DType::bf16, Device::cuda());
  memory::reset_peaks(Device::cpu());
  const std::size_t before = memory::stats(Device::cpu()).allocated.peak;
  memory::set_limit(memory::stats(Device::cpu()).reserved.current + (std::size_t{64} << 20), Device::cpu());
  load_safetensors_into(path_, {{"x", x}});
  save_safetensors(path_, {{"x", x}});
  memory::set_limit(std::numeric_limits<std::size_t>::max(), Device::cpu());
  EXPECT_LE(memory::stats(Device::cpu()).allocated.peak - before, std::size_t{16} << 20);
  EXPECT_EQ(sum(to(x, DType::f32)).item<double>(), 0);
}

TEST_F(Safetensors, OfASmallTensorTakesASmallPiece) {
  const Tensor x = ones(100);
  const auto grown = [&](const auto& does) {
    memory::reset_peaks(Device::cpu());
    const std::size_t before = memory::stats(Device::cpu()).allocated.peak;
    does();
    return memory::stats(Device::cpu()).allocated.peak - before;
  };
  EXPECT_EQ(grown([&] { save_safetensors(path_, {{"x", x}}); }), test::rounded(400));
  EXPECT_EQ(grown([&] { load_safetensors_into(path_, {{"x", x}}); }), test::rounded(400));
}

TEST_F(Safetensors, LoadingIsPredicted) {
  nn::Linear fc(100, 100);
  save_safetensors(path_, fc.state_dict());
  const DefaultDevice meta(Device::meta());
  nn::Linear twin(100, 100);
  const std::size_t before = test::allocated(Device::meta());
  load_safetensors_into(path_, twin.state_dict());
  const NamedTensors loaded = load_safetensors(path_);
  EXPECT_EQ(loaded[0].second.device(), Device::meta());
  EXPECT_EQ(test::allocated(Device::meta()) - before, test::rounded(40000) + test::rounded(400));
}

/// As others do who write into a file in place.
void overwrite(const std::string& path, std::streamoff at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at, std::ios::end);
  file << bytes;
}

TEST_F(Safetensors, AFileThatChangesMeanwhileIsNoticed) {
  save_safetensors(path_, {{"a", full({4}, 5)}});
  const SafetensorsFile file(path_);
  std::filesystem::last_write_time(path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(1));
  overwrite(path_, -4, "abcd");
  const Tensor a = ones({4});
  const auto load_into = [&] { file.load_into({{"a", a}}, true); };
  const std::string expected = path_ + ": was written to while it was read";
  EXPECT_THAT(load_into, testing::ThrowsMessage<FileError>("load_safetensors_into: " + expected));
  EXPECT_EQ(a.to_vector<float>(), std::vector<float>(4, 1.0F)) << "before anything was written";
  EXPECT_THAT([&] { file.load(Device::cpu(), memory::Role::temporary); },
              testing::ThrowsMessage<FileError>("load_safetensors: " + expected));
}

// The time or the size may be all that tells.
TEST_F(Safetensors, AFileThatChangesInOneRespectIsNoticed) {
  using std::filesystem::last_write_time;
  const auto load = [](const SafetensorsFile& file) { file.load(Device::cpu(), memory::Role::temporary); };
  save_safetensors(path_, {{"a", full({4}, 5)}});
  {
    const SafetensorsFile file(path_);
    const auto before = last_write_time(path_);
    last_write_time(path_, before + std::chrono::seconds(1));
    EXPECT_THROWS_SAYING(load(file), FileError, "was written to");
    last_write_time(path_, before);
    EXPECT_NO_THROW(load(file));
  }
  const SafetensorsFile file(path_);
  const auto before = last_write_time(path_);
  std::ofstream(path_, std::ios::app | std::ios::binary) << 'x';
  last_write_time(path_, before);
  EXPECT_THROWS_SAYING(load(file), FileError, "was written to");
}

TEST_F(Safetensors, GoesThroughAFifo) {
  const std::string fifo = dir_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const NamedTensors tensors{{"a", some({300}, DType::f32)}, {"b", some({7}, DType::i64)}};
  std::string read;
  std::thread reader([&] { read = content_of(fifo); });
  save_safetensors(fifo, tensors);
  reader.join();
  save_safetensors(path_, tensors);
  EXPECT_EQ(read, content_of(path_)) << "checksum and all";
}

TEST_F(Safetensors, NoPathHasAZeroByte) {
  const std::string path("mine\0.ck", 8);
  EXPECT_THAT([&] { save_safetensors(path, {}); },
              testing::ThrowsMessage<FileError>(
                  "save_safetensors: cannot write tensors to 'mine': expected a path without a zero byte"));
  EXPECT_THAT([&] { load_safetensors(path); },
              testing::ThrowsMessage<FileError>("load_safetensors: mine: expected a path without a zero byte"));
}

}  // namespace
}  // namespace bytetape
