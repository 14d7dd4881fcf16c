#include "bytetape/core/factories.h"

#include <cmath>
#include <functional>
#include <limits>

#include "bytetape/core/device/stream.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using Integers = std::vector<std::int64_t>;
using Doubles = std::vector<double>;
using memory::Role;

TEST(Factories, FillWithANumber) {
  EXPECT_EQ(zeros({2, 2}).to_vector<double>(), std::vector<double>(4, 0));
  EXPECT_EQ(ones({3}, DType::bf16).to_vector<double>(), std::vector<double>(3, 1));
  EXPECT_EQ(full({2}, 2.5, DType::f64).to_vector<double>(), std::vector<double>(2, 2.5));
  EXPECT_EQ(full({2}, (std::int64_t{1} << 60) + 1, DType::i64).to_vector<std::int64_t>(),
            Integers(2, (std::int64_t{1} << 60) + 1));
  EXPECT_EQ(full({}, 7).item<int>(), 7);
  EXPECT_EQ(zeros({3, 0}).numel(), 0);
}

TEST(Factories, DefaultToF32OnTheCpu) {
  EXPECT_EQ(zeros({2}).dtype(), DType::f32);
  EXPECT_EQ(rand({2}).dtype(), DType::f32);
  EXPECT_EQ(randint(0, 5, {2}).dtype(), DType::i64);
  EXPECT_EQ(zeros({2}).device(), Device::cpu());
}

TEST(Factories, NameThemselves) {
  const auto named = [](const char* name, const std::function<void()>& make) {
    EXPECT_THROWS_SAYING(make(), ShapeError, std::string(name) + ": ");
  };
  const Shape bad{-1};
  named("empty", [&] { empty(bad); });
  named("zeros", [&] { zeros(bad); });
  named("ones", [&] { ones(bad); });
  named("full", [&] { full(bad, 2); });
  named("rand", [&] { rand(bad); });
  named("randn", [&] { randn(bad); });
  named("randint", [&] { randint(0, 2, bad); });
  EXPECT_EQ(memory::name_of(test::op_of(zeros(3))), "zeros");
  EXPECT_EQ(memory::name_of(test::op_of(ones(3))), "ones");
  EXPECT_EQ(memory::name_of(test::op_of(zeros_like(ones(3)))), "zeros_like");
}

TEST(Factories, AreTemporaryUnlessTold) {
  const Device cpu = Device::cpu();
  Generator& g = default_generator();
  const auto role = [](const Tensor& x) { return x.storage().role(); };
  for (const Tensor& x : {empty(3), zeros(3), ones(3), full(3, 1), arange(3), arange(0, 3), rand(3), randn(3),
                          randint(0, 2, 3), randperm(3), from_vector<float>({1})})
    EXPECT_EQ(role(x), Role::temporary);
  for (const Tensor& x : {empty(3, DType::f32, cpu, Role::input), zeros(3, DType::f32, cpu, Role::input),
                          ones(3, DType::f32, cpu, Role::input), full(3, 1, DType::f32, cpu, Role::input),
                          arange(3, DType::i64, cpu, Role::input), arange(0, 3, 1, {}, cpu, Role::input),
                          rand(3, DType::f32, cpu, g, Role::input), randn(3, DType::f32, cpu, g, Role::input),
                          randint(0, 2, 3, DType::i64, cpu, g, Role::input), randperm(3, cpu, g, Role::input),
                          from_vector<float>({1}, 1, cpu, Role::input)})
    EXPECT_EQ(role(x), Role::input);
}

TEST(Factories, TakeOneIntegerForAShape) {
  EXPECT_EQ(zeros(5).shape(), (Shape{5}));
  EXPECT_EQ(zeros(5, DType::i64).dtype(), DType::i64);
  EXPECT_EQ(full(2, 3).to_vector<double>(), (Doubles{3, 3}));
  EXPECT_EQ(randint(0, 10, 4).shape(), (Shape{4}));
  EXPECT_EQ(from_vector<float>({1, 2, 3}, 3).shape(), (Shape{3}));
  EXPECT_EQ(empty(std::vector<int>(7).size()).shape(), (Shape{7}));
}

TEST(Factories, LikeKeepsShapeDtypeAndLayout) {
  const Shape shape{2, 3, 4, 5};
  const Tensor x = empty_strided(shape, channels_last_strides(shape), DType::f64, {});
  const Tensor y = ones_like(x);
  EXPECT_EQ(y.shape(), shape);
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_EQ(y.dtype(), DType::f64);
  EXPECT_EQ(y.to_vector<double>(), std::vector<double>(120, 1));
  EXPECT_EQ(zeros_like(y).to_vector<double>(), std::vector<double>(120, 0));
}

TEST(Factories, FullLikeTakesWhatTheDTypeHolds) {
  const Tensor x = full_like(zeros({2, 3}, DType::bf16), 2.5);
  EXPECT_EQ(x.dtype(), DType::bf16);
  EXPECT_EQ(x.to_vector<double>(), Doubles(6, 2.5));
  EXPECT_THROWS_SAYING(full_like(zeros(2, DType::i64), 0.5), DTypeError, "full_like: i64 cannot represent");
  EXPECT_THROWS_SAYING(full_like({}, 1), ValueError, "full_like: the input is an undefined tensor");
}

TEST(Factories, RandomNumbersLikeATensorAreThoseOfItsShape) {
  const Shape shape{2, 3, 4, 5};
  for (const DType t : {DType::f64, DType::f32, DType::f16}) {
    const Tensor x = empty_strided(shape, channels_last_strides(shape), t, {});
    const auto same = [&](const std::function<Tensor(Generator&)>& like,
                          const std::function<Tensor(Generator&)>& made) {
      Generator one(7), other(7);
      const Tensor y = like(one), z = made(other);
      EXPECT_EQ(y.strides(), x.strides());
      EXPECT_EQ(y.dtype(), t);
      EXPECT_EQ(y.to_vector<double>(), z.to_vector<double>()) << t;
    };
    const Device cpu = Device::cpu();
    same([&](Generator& g) { return rand_like(x, g); }, [&](Generator& g) { return rand(shape, t, cpu, g); });
    same([&](Generator& g) { return randn_like(x, g); }, [&](Generator& g) { return randn(shape, t, cpu, g); });
    same([&](Generator& g) { return randint_like(x, -3, 9, g); },
         [&](Generator& g) { return randint(-3, 9, shape, t, cpu, g); });
  }
  EXPECT_THROWS_SAYING(rand_like(zeros(2, DType::i64)), DTypeError, "rand_like: expected a floating dtype");
  EXPECT_THROWS_SAYING(randn_like(Tensor()), ValueError, "randn_like: the input is an undefined tensor");
  EXPECT_THROWS_SAYING(randint_like(zeros(2, DType::u8), 0, 300), ValueError, "randint_like: the range from 0 to 299");
}

TEST(Factories, Linspace) {
  EXPECT_EQ(linspace(0, 1, 5).to_vector<double>(), (Doubles{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(linspace(3, -1, 3, DType::f64).to_vector<double>(), (Doubles{3, 1, -1}));
  EXPECT_EQ(linspace(2, 5, 1).to_vector<double>(), (Doubles{2}));
  EXPECT_EQ(linspace(2, 5, 0).shape(), (Shape{0}));
  for (const std::int64_t steps : {2, 38, 68, 1000}) {  // 0.1 + 37 * (0.6 / 37) is not 0.7, also with an FMA
    const Doubles x = linspace(0.1, 0.7, steps, DType::f64).to_vector<double>();
    EXPECT_EQ(x.front(), 0.1);
    EXPECT_EQ(x.back(), 0.7) << steps;
  }
  EXPECT_THROWS_SAYING(linspace(0, 1, -1), ValueError, "linspace: expected steps >= 0, got -1");
  EXPECT_THROWS_SAYING(linspace(0, INFINITY, 3), ValueError, "expected a finite range");
  EXPECT_THROWS_SAYING(linspace(0, 1, 3, DType::i64), DTypeError, "expected a floating dtype, got i64");
}

TEST(Factories, Eye) {
  EXPECT_EQ(eye(2).to_vector<double>(), (Doubles{1, 0, 0, 1}));
  EXPECT_EQ(eye(2, 3, DType::i64).to_vector<double>(), (Doubles{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(3, 2, DType::boolean).to_vector<bool>(), (std::vector<bool>{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  EXPECT_THROWS_SAYING(eye(-1), ShapeError, "eye: ");
}

TEST(Factories, Arange) {
  EXPECT_EQ(arange(4).to_vector<std::int64_t>(), (Integers{0, 1, 2, 3}));
  EXPECT_EQ(arange(2, 9, 3).to_vector<std::int64_t>(), (Integers{2, 5, 8}));
  EXPECT_EQ(arange(5, -1, -2).to_vector<std::int64_t>(), (Integers{5, 3, 1}));
  EXPECT_EQ(arange(0, 3, 1, DType::f32).dtype(), DType::f32);
  EXPECT_EQ(arange(0).numel(), 0);
  EXPECT_THROWS_SAYING(arange(0, 3, 0), ValueError, "arange");
  EXPECT_THROW(arange(0, 3, -1), ValueError);
}

TEST(Factories, RejectNegativeSizes) {
  EXPECT_THROWS_SAYING(zeros({2, -1}), ShapeError, "(2, -1)");
  EXPECT_THROW(zeros({0, -1}), ShapeError);
  EXPECT_THROW(rand({-3}), ShapeError);
}

TEST(Factories, FromVector) {
  EXPECT_EQ(from_vector<float>({1, 2, 3, 4}, {2, 2}).to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  const Tensor flags = from_vector(std::vector<bool>{true, false});
  EXPECT_EQ(flags.dtype(), DType::boolean);
  EXPECT_EQ(flags.to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(from_vector<std::uint8_t>({}, {0, 3}).shape(), (Shape{0, 3}));
  EXPECT_THROWS_SAYING(from_vector<double>({1, 2, 3}, {2, 2}), ShapeError, "3 values");
}

TEST(Factories, FromBlobWrapsAndReleases) {
  const std::size_t before = test::allocated();
  std::int32_t data[] = {4, 5, 6, 7};
  int released = 0;
  {
    Tensor x = from_blob(data, {2, 2}, DType::i32, [&] { ++released; });
    const Tensor row = x.alias({2}, {1}, 2);
    EXPECT_EQ(row.to_vector<int>(), (std::vector<int>{6, 7}));
    x.data<std::int32_t>()[0] = 40;
    EXPECT_EQ(data[0], 40);
    EXPECT_EQ(test::allocated(), before);
    x = Tensor();
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_THROWS_SAYING(from_blob(nullptr, {2}, DType::f32), ValueError,
                       "from_blob: expected a pointer to 2 elements, got null");
  EXPECT_EQ(from_blob(nullptr, {0, 2}, DType::f32).numel(), 0);
}

TEST(Factories, FromBlobTakesStrides) {
  float data[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const Tensor x = from_blob(data + 1, {2, 3}, DType::f32, {.strides = {1, 2}});
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(x.storage().bytes(), 6 * sizeof(float));
  EXPECT_EQ(from_blob(data, {4, 2}, DType::f32, {.strides = {0, 1}}).storage().bytes(), 2 * sizeof(float));
  EXPECT_EQ(from_blob(data, {1, 2}, DType::f32, {.strides = {1000, 7}}).storage().bytes(), 8 * sizeof(float));
  EXPECT_EQ(from_blob(data, {}, DType::f32).item<float>(), 0);
}

TEST(Factories, FromBlobRejectsMemoryThatATensorCannotUse) {
  float data[8]{};
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROWS_SAYING(from_blob(data, {2, 2}, DType::f32, {.strides = {1}}), ShapeError,
                       "expected a stride for each dim");
  EXPECT_THROWS_SAYING(from_blob(data, {2, 2}, DType::f32, {.strides = {2, -1}}), ValueError,
                       "expected strides of at least 0, got (2, -1)");
  EXPECT_THROWS_SAYING(from_blob(data, {3, 2}, DType::f32, {.strides = {most, 1}}), ShapeError, "too large");
  EXPECT_THROWS_SAYING(from_blob(data, {3, 3, 3}, DType::f32, {.strides = {most / 4, most / 4, most / 4}}), ShapeError,
                       "too large");
  EXPECT_THROWS_SAYING(from_blob(reinterpret_cast<char*>(data) + 2, {2}, DType::f32), ValueError,
                       "a multiple of 4 bytes");
  EXPECT_THROWS_SAYING(from_blob(data, {2}, DType::f32, {.device = Device::meta()}), DeviceError, "meta device");
}

TEST(Factories, FromBlobReleasesNothingIfItThrows) {
  int released = 0;
  EXPECT_THROW(from_blob(nullptr, {2}, DType::f32, [&] { ++released; }), ValueError);
  EXPECT_EQ(released, 0);
  from_blob(nullptr, {0}, DType::f32, [&] { ++released; });
  EXPECT_EQ(released, 1);
}

TEST(Factories, ReadOnlyMemoryIsNotWritten) {
  float data[] = {1, 2};
  const Tensor x = from_blob(data, {2}, DType::f32, {.is_read_only = true});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROWS_SAYING(x.write(), ValueError, "read-only; clone() it first");
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  }
  const StreamScope other(Stream(3));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_THROW(x.write(), ValueError);
}

TEST(Factories, OnMetaNothingIsTouched) {
  const std::size_t before = test::allocated();
  const Tensor x = zeros({1 << 20, 1 << 10}, DType::f32, Device::meta());
  EXPECT_EQ(x.nbytes(), std::size_t{1} << 32);
  EXPECT_EQ(test::allocated(), before);
  EXPECT_EQ(arange(0, 5, 1, DType::i64, Device::meta()).numel(), 5);
}

TEST(Arange, OfMoreNumbersThanThereCanBe) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROWS_SAYING(arange(least, most), ValueError, "too many elements");
  EXPECT_THROWS_SAYING(arange(0, 1e300), ValueError, "too many elements");
  EXPECT_THROWS_SAYING(arange(least, most, 4), ShapeError, "has too many bytes");
}

TEST(Arange, SpansEveryInteger) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t step = std::int64_t{1} << 62;
  EXPECT_EQ(arange(least, most, step).to_vector<std::int64_t>(), (std::vector<std::int64_t>{least, -step, 0, step}));
}

TEST(Arange, OfNumbersThatTheDTypeHas) {
  EXPECT_THROWS_SAYING(arange(-1, 2, 1, DType::u8), ValueError, "do not fit into u8");
  EXPECT_THROWS_SAYING(arange(250, 257, 1, DType::u8), ValueError, "do not fit into u8");
  EXPECT_EQ(arange(250, 256, 1, DType::u8).numel(), 6);
  EXPECT_EQ(arange(300, 300, 1, DType::u8).numel(), 0);
  for (const std::int64_t end : {0, 3}) EXPECT_THROWS_SAYING(arange(0, end, 0), ValueError, "steps of 0");
}

TEST(Arange, OfFloats) {
  EXPECT_EQ(arange(0.5, 3.5).to_vector<double>(), (std::vector<double>{0.5, 1.5, 2.5}));
  EXPECT_EQ(arange(1.0, 0.0, -0.25, DType::f64).to_vector<double>(), (std::vector<double>{1, 0.75, 0.5, 0.25}));
  EXPECT_EQ(arange(0.0, 1.0, 0.4).shape(), (Shape{3}));
  EXPECT_THROWS_SAYING(arange(0.0, 1.0, -1.0), ValueError, "arange: steps of -1 do not lead from 0 to 1");
  EXPECT_THROWS_SAYING(arange(0.0, 0.5, -1.0), ValueError, "steps of -1 do not lead from 0 to 0.5");
  EXPECT_THROWS_SAYING(arange(0.0, 1.0, 0.0), ValueError, "steps of 0");
  EXPECT_THROWS_SAYING(arange(0.0, 0.0, 0.0), ValueError, "steps of 0");
  EXPECT_THROWS_SAYING(arange(0.5, 1.5, 1.0, DType::i64), DTypeError, "integers need integer bounds");
}

// torch.arange(0, 10, 2.5), torch.arange(0, 1, 0.1), ...
TEST(Arange, OfIntegersAndFloatsIsOfFloats) {
  EXPECT_EQ(arange(0, 10, 2.5).to_vector<double>(), (Doubles{0, 2.5, 5, 7.5}));
  EXPECT_EQ(arange(0, 10, 2.5).dtype(), DType::f32);
  EXPECT_EQ(arange(0, 1, 0.1).shape(), (Shape{10}));
  EXPECT_EQ(arange(0, 2.5).to_vector<double>(), (Doubles{0, 1, 2}));
  EXPECT_EQ(arange(0.5, 3).to_vector<double>(), (Doubles{0.5, 1.5, 2.5}));
  EXPECT_EQ(arange(2.5).dtype(), DType::f32);
  EXPECT_EQ(arange(1, 0, -0.25, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(arange(0, 3).dtype(), DType::i64);
  EXPECT_EQ(arange(3, DType::u8).dtype(), DType::u8);
  EXPECT_EQ(arange(1.5, 1.5).numel(), 0);
}

TEST(Arange, OfWhatIsNotFinite) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROWS_SAYING(arange(0, inf), ValueError, "arange: expected finite numbers, got 0 to inf in steps of 1");
  for (const double bad : {inf, -inf, nan}) {
    EXPECT_THROWS_SAYING(arange(bad, 1), ValueError, "expected finite numbers");
    EXPECT_THROWS_SAYING(arange(0, bad), ValueError, "expected finite numbers");
    EXPECT_THROWS_SAYING(arange(0, 1, bad), ValueError, "expected finite numbers");
    EXPECT_THROWS_SAYING(arange(bad), ValueError, "expected finite numbers");
  }
}

TEST(Arange, IsExactInLargeIntegers) {
  constexpr std::int64_t far = (std::int64_t{1} << 60) + 1;
  EXPECT_EQ(arange(far, far + 4, 2).to_vector<std::int64_t>(), (Integers{far, far + 2}));
}

TEST(Full, TakesNoNumberThatTheDTypeLacks) {
  EXPECT_THROWS_SAYING(full({1}, 300, DType::u8), DTypeError, "full: u8 cannot represent the number 300");
  EXPECT_THROWS_SAYING(full({1}, 1.5, DType::i64), DTypeError, "full: i64 cannot represent the number 1.5");
}

}  // namespace
}  // namespace bytetape
