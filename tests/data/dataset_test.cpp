#include "bytetape/data/dataset.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator/block.h"
#include "tests/data/files.h"
#include "tests/support/stand_in.h"

namespace bytetape::data {
namespace {

using testing::HasSubstr;

Tensor u8(const Shape& shape) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(numel(shape)));
  std::iota(values.begin(), values.end(), std::uint8_t{17});
  return from_vector(values, shape);
}
Tensor numbers(std::int64_t n) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 100);
  return from_vector(values);
}

TEST(TensorDataset, GathersRowsOfAnyDtype) {
  const TensorDataset set(from_vector<double>({1, 2, 3, 4, 5, 6}, {3, 2}), numbers(3));
  EXPECT_EQ(set.size(), 3);
  const Batch b = set.get(std::array<std::int64_t, 4>{2, 0, 2, 1});
  EXPECT_EQ(b.x.shape(), (Shape{4, 2}));
  EXPECT_EQ(b.x.dtype(), DType::f64);
  EXPECT_EQ(b.x.to_vector<double>(), (std::vector<double>{5, 6, 1, 2, 5, 6, 3, 4}));
  EXPECT_EQ(b.y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{102, 100, 102, 101}));
}

TEST(TensorDataset, NormalizesImages) {
  const Tensor images = u8({3, 2, 4});
  const TensorDataset set(images, numbers(3), mnist_normalize);
  const Batch b = set.get(std::array<std::int64_t, 2>{1, 2});
  EXPECT_EQ(b.x.shape(), (Shape{2, 1, 2, 4}));
  EXPECT_EQ(b.x.dtype(), DType::f32);
  const auto pixels = images.to_vector<double>();
  const auto values = b.x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], (pixels[8 + i] / 255 - 0.1307) / 0.3081, 1e-6);
}

TEST(TensorDataset, KeepsTheChannelsOfImages) {
  const TensorDataset set(u8({2, 3, 4, 5}), numbers(2), Normalize{});
  const Batch b = set.get(std::array<std::int64_t, 1>{1});
  EXPECT_EQ(b.x.shape(), (Shape{1, 3, 4, 5}));
  EXPECT_FLOAT_EQ(b.x.to_vector<float>()[1], (60 + 17 + 1) / 255.0f);
}

TEST(TensorDataset, BatchesAreInputsOnTheLedger) {
  const TensorDataset set(u8({5, 28, 28}), numbers(5), mnist_normalize);
  const Batch b = set.get(std::array<std::int64_t, 3>{4, 1, 0});
  for (const Tensor& t : {b.x, b.y}) {
    EXPECT_EQ(t.storage().role(), memory::Role::input);
    const memory::ScopeIds owner = t.storage().owner();
    EXPECT_EQ(owner.phase, memory::Phase::data);
    EXPECT_EQ(memory::name_of(owner.op), "collate");
  }
}

TEST(TensorDataset, AMetaBatchCostsTheSame) {
  const TensorDataset set(u8({5, 28, 28}), numbers(5), mnist_normalize);
  const Batch real = set.allocate(4), meta = set.allocate(4, Device::meta());
  EXPECT_TRUE(meta.x.device().is_meta);
  EXPECT_EQ(meta.x.shape(), real.x.shape());
  EXPECT_EQ(meta.x.storage().block()->size, real.x.storage().block()->size);
  EXPECT_EQ(meta.y.dtype(), DType::i64);
}

TEST(TensorDataset, OfMetaTensorsIsLoadedToMetaAlone) {
  const DefaultDevice here(Device::meta());
  const TensorDataset set(u8({5, 28, 28}), numbers(5), mnist_normalize);
  const std::array<std::int64_t, 2> two{1, 4};
  Batch meta = set.allocate(2, Device::meta());
  EXPECT_EQ(meta.x.shape(), (Shape{2, 1, 28, 28}));
  set.load(two, meta);
  EXPECT_EQ(error_of<DeviceError>([&] { set.get(two); }), "collate: u8(5, 28, 28) on meta holds no data");
  const TensorDataset labels_alone(from_vector<float>({1, 2}, {2, 1}, Device::cpu()), numbers(2));
  EXPECT_EQ(error_of<DeviceError>([&] { labels_alone.get(std::array<std::int64_t, 1>{0}); }),
            "collate: i64(2,) on meta holds no data");
}

TEST(TensorDataset, EmptyBatchesAndEmptyDatasets) {
  const TensorDataset set(u8({0, 2, 2}), from_vector<std::int64_t>({}), Normalize{});
  EXPECT_EQ(set.size(), 0);
  EXPECT_EQ(set.get({}).x.shape(), (Shape{0, 1, 2, 2}));
}

TEST(TensorDataset, IndicesAreChecked) {
  const TensorDataset set(u8({3, 2}), numbers(3));
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{3}})
    EXPECT_EQ(error_of<ShapeError>([&] { set.get(std::array{wrong}); }),
              "collate: example " + std::to_string(wrong) + " of a dataset of 3");
}

TEST(TensorDataset, BatchesAreChecked) {
  const TensorDataset set(u8({3, 2}), numbers(3));
  const std::array<std::int64_t, 1> one{1};
  const auto message = [&](auto error, const Tensor& x, const Tensor& y) {
    Batch batch{x, y};
    return error_of<decltype(error)>([&] { set.load(one, batch); });
  };
  const Tensor x = u8({1, 2}), y = numbers(1);
  EXPECT_THAT(message(DTypeError(""), zeros({1, 2}), y),
              HasSubstr("expected a batch with x u8 and y i64, got x f32(1, 2)"));
  EXPECT_THAT(message(DTypeError(""), x, zeros(1)), HasSubstr("y f32(1,)"));
  EXPECT_THAT(message(ShapeError(""), u8({2, 2}), y),
              HasSubstr("expected a batch of 1 examples with x (1, 2) and y (1,)"));
  EXPECT_THAT(message(ShapeError(""), x, numbers(2)), HasSubstr("y i64(2,)"));
  EXPECT_THAT(message(ShapeError(""), {}, y), HasSubstr("a batch of 1 examples"));
  EXPECT_THAT(message(ShapeError(""), x, {}), HasSubstr("a batch of 1 examples"));
}

TEST(TensorDataset, BadTensorsAreNamed) {
  const auto message = [](auto error, const Tensor& x, const Tensor& y, std::optional<Normalize> by = {}) {
    return error_of<decltype(error)>([&] { TensorDataset(x, y, by); });
  };
  EXPECT_EQ(message(ShapeError(""), u8({3, 2}), numbers(4)),
            "TensorDataset: expected x and y with the same number of examples, got u8(3, 2) on cpu and i64(4,) on cpu");
  EXPECT_THAT(message(ShapeError(""), u8({}), numbers(1)), HasSubstr("x must have examples along its first dim"));
  EXPECT_THAT(message(ShapeError(""), u8({3, 2}).alias({2, 3}, {1, 2}, 0), numbers(2)), HasSubstr("row-major"));
  EXPECT_THAT(message(DTypeError(""), numbers(3), numbers(3), Normalize{}), HasSubstr("expected u8 images"));
  EXPECT_THAT(message(ShapeError(""), u8({3, 2}), numbers(3), Normalize{}), HasSubstr("(n, h, w) or (n, c, h, w)"));
  EXPECT_THAT(message(ValueError(""), u8({3, 2, 2}), numbers(3), Normalize{0.5, 0}), HasSubstr("expected std > 0"));
}

TEST(TensorDataset, TakesNoTensorsOfAnotherDevice) {
  const test::StandIn gpu;
  const Tensor there = zeros({3, 2}, DType::u8, Device::cuda());
  EXPECT_EQ(error_of<DeviceError>([&] { TensorDataset(there, numbers(3)); }),
            "TensorDataset: x must be on cpu or a meta device, got u8(3, 2) on cuda");
}

TEST(TensorDataset, LoadsIntoBatchesOfItsShapesAndDtypesAlone) {
  const TensorDataset set(u8({3, 2}), numbers(3));
  const std::array<std::int64_t, 2> indices{2, 0};
  const auto load = [&](const Tensor& x, const Tensor& y) {
    Batch batch{x, y};
    set.load(indices, batch);
    return batch;
  };
  const Tensor x = empty({2, 2}, DType::u8), y = empty({2}, DType::i64);
  EXPECT_EQ(load(x, y).y.to_vector<int>(), (std::vector<int>{102, 100}));
  EXPECT_THROW(load({}, y), ShapeError);
  EXPECT_THROW(load(x, {}), ShapeError);
  EXPECT_THROW(load(empty({2, 3}, DType::u8), y), ShapeError);
  EXPECT_THROW(load(x, empty({3}, DType::i64)), ShapeError);
  EXPECT_THROW(load(empty({2, 2}, DType::f32), y), DTypeError);
  EXPECT_THROW(load(x, empty({2}, DType::i32)), DTypeError);
}

// ---- further tensors

Tensor halves(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(numel(shape)));
  std::iota(values.begin(), values.end(), 0.5);
  return from_vector(values, shape);
}
TensorDataset with_more(std::vector<TensorField> more, std::optional<Normalize> by = {}) {
  return {u8({3, 2, 4}), numbers(3), by, std::move(more)};
}
TensorDataset scenes(std::optional<Normalize> by = {}) {
  return with_more({{.name = "mask", .rows = u8({3, 2, 4}), .moves_with_x = true}, {"boxes", halves({3, 1, 4})}}, by);
}

TEST(TensorDataset, GathersFurtherTensorsByName) {
  const Batch b = scenes(mnist_normalize).get(std::array<std::int64_t, 2>{2, 0});
  EXPECT_EQ(b.x.dtype(), DType::f32);
  ASSERT_EQ(b.more.size(), 2u);
  EXPECT_EQ(b["mask"].shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(b["mask"].dtype(), DType::u8) << "only x is normalised";
  EXPECT_EQ(b["mask"].to_vector<int>(),
            (std::vector<int>{33, 34, 35, 36, 37, 38, 39, 40, 17, 18, 19, 20, 21, 22, 23, 24}));
  EXPECT_EQ(b["boxes"].shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(b["boxes"].to_vector<double>(), (std::vector<double>{8.5, 9.5, 10.5, 11.5, 0.5, 1.5, 2.5, 3.5}));
}

TEST(TensorDataset, SaysWhichFurtherTensorsExamplesHave) {
  const ExampleSpec spec = scenes().example();
  ASSERT_EQ(spec.more.size(), 2u);
  EXPECT_EQ(spec.more[0].name, "mask");
  EXPECT_EQ(spec.more[0].shape, (Shape{2, 4}));
  EXPECT_EQ(spec.more[0].dtype, DType::u8);
  EXPECT_TRUE(spec.more[0].moves_with_x);
  EXPECT_EQ(spec.more[1].name, "boxes");
  EXPECT_EQ(spec.more[1].dtype, DType::f64);
  EXPECT_FALSE(spec.more[1].moves_with_x);
  EXPECT_TRUE(TensorDataset(u8({3, 2}), numbers(3)).example().more.empty());
}

TEST(TensorDataset, FurtherTensorsAreInputsOnTheLedgerOnMetaToo) {
  const TensorDataset set = scenes();
  const Batch real = set.allocate(3), meta = set.allocate(3, Device::meta());
  for (const char* name : {"mask", "boxes"}) {
    for (const Batch* batch : {&real, &meta}) {
      EXPECT_EQ((*batch)[name].storage().role(), memory::Role::input);
      EXPECT_EQ((*batch)[name].storage().owner().phase, memory::Phase::data);
      EXPECT_EQ(memory::name_of((*batch)[name].storage().owner().op), "collate");
    }
    EXPECT_TRUE(meta[name].device().is_meta);
    EXPECT_EQ(meta[name].shape(), real[name].shape());
    EXPECT_EQ(meta[name].dtype(), real[name].dtype());
    EXPECT_EQ(meta[name].storage().block()->size, real[name].storage().block()->size);
  }
}

TEST(TensorDataset, FurtherTensorsMayBeMetaAlone) {
  const TensorDataset set = with_more({{"mask", empty({3, 2, 4}, DType::i64, Device::meta())}});
  const std::array<std::int64_t, 1> one{1};
  Batch meta = set.allocate(1, Device::meta());
  EXPECT_NO_THROW(set.load(one, meta));
  EXPECT_EQ(error_of<DeviceError>([&] { set.get(one); }), "collate: i64(3, 2, 4) on meta holds no data");
}

TEST(TensorDataset, BadFurtherTensorsAreNamed) {
  const auto message = [](auto error, const std::vector<TensorField>& more) {
    return error_of<decltype(error)>([&] { with_more(more); });
  };
  const Tensor good = halves({3, 4});
  EXPECT_EQ(message(ShapeError(""), {{"mask", good}, {"boxes", halves({4, 2})}}),
            "TensorDataset: expected x and 'boxes' with the same number of examples, got u8(3, 2, 4) on cpu and "
            "f64(4, 2) on cpu");
  EXPECT_EQ(message(ValueError(""), {{"mask", good}, {"boxes", {}}}), "TensorDataset: 'boxes' is an undefined tensor");
  EXPECT_THAT(message(ShapeError(""), {{"mask", halves({})}}), HasSubstr("'mask' must have examples along"));
  EXPECT_THAT(message(ShapeError(""), {{"mask", halves({4, 3}).alias({3, 4}, {1, 3}, 0)}}),
              HasSubstr("'mask' must be row-major"));
  EXPECT_THAT(message(ValueError(""), {{"mask", good}, {"mask", good}}),
              HasSubstr("TensorDataset: two fields are named 'mask'"));
  EXPECT_THAT(message(ValueError(""), {{"y", good}}), HasSubstr("a field is named 'y'"));
  EXPECT_THAT(message(ValueError(""), {{"", good}}), HasSubstr("a field has no name"));
}

TEST(TensorDataset, LoadsFurtherTensorsIntoTheirShapesAndDtypesAlone) {
  const TensorDataset set = scenes();
  const std::array<std::int64_t, 2> two{1, 2};
  const Batch good = set.allocate(2);
  const auto message = [&](auto error, NamedTensors more) {
    Batch batch{good.x, good.y, std::move(more)};
    return error_of<decltype(error)>([&] { set.load(two, batch); });
  };
  const Tensor mask = good["mask"], boxes = good["boxes"];
  EXPECT_EQ(message(ValueError(""), {}), "collate: expected a batch with 2 tensors beside x and y, got 0");
  EXPECT_EQ(message(ValueError(""), {{"mask", mask}, {"box", boxes}}),
            "collate: expected 'boxes' in a batch, got 'box'");
  EXPECT_EQ(message(ShapeError(""), {{"mask", mask}, {"boxes", zeros({1, 1, 4}, DType::f64)}}),
            "collate: expected a batch of 2 examples with 'boxes' (2, 1, 4), got f64(1, 1, 4) on cpu");
  EXPECT_THAT(message(ShapeError(""), {{"mask", {}}, {"boxes", boxes}}), HasSubstr("with 'mask' (2, 2, 4), got"));
  EXPECT_EQ(message(DTypeError(""), {{"mask", zeros({2, 2, 4}, DType::i32)}, {"boxes", boxes}}),
            "collate: expected a batch with 'mask' u8, got i32(2, 2, 4) on cpu");
}

/// Example i has y = i and the field "twice" = 2 i, if it is written.
class Twice : public Dataset {
 public:
  explicit Twice(std::string name) : name_(std::move(name)) {}
  std::int64_t size() const override { return 5; }
  ExampleSpec example() const override { return {.x_shape = {}, .more = {{name_, {}, DType::i64}}}; }

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor&, Tensor& y) const override {
    std::copy(indices.begin(), indices.end(), y.data<std::int64_t>());
  }

 private:
  std::string name_;
};
class WrittenTwice final : public Twice {
  using Twice::Twice;
  void fill_more(std::span<const std::int64_t> indices, Batch& batch) const override {
    EXPECT_EQ(batch.y.to_vector<std::int64_t>(), std::vector(indices.begin(), indices.end())) << "fill() ran before";
    auto* to = batch["twice"].data<std::int64_t>();
    for (const std::int64_t i : indices) *to++ = 2 * i;
  }
};

TEST(Dataset, WritesFurtherTensorsInOneFunctionMore) {
  const std::array<std::int64_t, 2> two{4, 1};
  EXPECT_EQ(WrittenTwice("twice").get(two)["twice"].to_vector<int>(), (std::vector<int>{8, 2}));
  EXPECT_EQ(error_of<NotImplemented>([&] { Twice("twice").get(two); }),
            "collate: example() has the field 'twice' beside x and y, so the dataset must override fill_more()");
  EXPECT_EQ(error_of<ValueError>([&] { WrittenTwice("x").get(two); }),
            "collate: a field is named 'x', which is the name of the inputs or targets: choose another");
}

}  // namespace
}  // namespace bytetape::data
