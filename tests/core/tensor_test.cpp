#include "bytetape/core/tensor.h"

#include <functional>
#include <utility>
#include <vector>

#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::make_tensor;

TEST(Tensor, IsUndefinedAtFirst) {
  const Tensor x;
  EXPECT_FALSE(x.defined());
  EXPECT_EQ(describe(x), "an undefined tensor");
  for (const std::function<void()>& access : std::vector<std::function<void()>>{
           [&] { x.shape(); }, [&] { x.numel(); }, [&] { x.size(0); }, [&] { x.dtype(); }, [&] { x.device(); },
           [&] { x.is_contiguous(); }, [&] { x.data<float>(); }, [&] { x.item<float>(); },
           [&] { x.to_vector<float>(); }, [&] { x.storage(); }})
    EXPECT_THROWS_SAYING(access(), ValueError, "the tensor is undefined");
}

TEST(Tensor, KnowsItsGeometry) {
  const Tensor x = empty({2, 3, 4}, DType::f64);
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.nbytes(), 192u);
  EXPECT_EQ(x.size(1), 3);
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.strides(), (Strides{12, 4, 1}));
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(describe(x), "f64(2, 3, 4) on cpu");
  EXPECT_THROW(x.size(3), ShapeError);
}

TEST(Tensor, HasAtMostTwoToThe62Bytes) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  EXPECT_EQ(bytes_of({most}, DType::u8), static_cast<std::size_t>(most));
  EXPECT_EQ(bytes_of({most / 8}, DType::f64), static_cast<std::size_t>(most));
  EXPECT_THROWS_SAYING(bytes_of({most / 8 + 1}, DType::f64), ShapeError, "too many bytes");
}

TEST(Tensor, CopiesShareTheData) {
  Tensor x = zeros({3});
  const Tensor y = x;
  x.data<float>()[1] = 5;
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 5, 0}));
  EXPECT_TRUE(x.is_same(y));
}

TEST(Tensor, AliasesShareTheStorageAtAnOffset) {
  const Tensor x = make_tensor({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor columns = x.alias({3, 2}, {1, 3}, 0), last = x.alias({}, {}, 5);
  EXPECT_EQ(columns.to_vector<double>(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_EQ(last.item<double>(), 5);
  EXPECT_EQ(last.storage_offset(), 5);
  EXPECT_EQ(&last.storage(), &x.storage());
}

TEST(Tensor, DataChecksTypeAndDevice) {
  const Tensor x = zeros({2});
  EXPECT_NE(x.data<float>(), nullptr);
  EXPECT_THROWS_SAYING(x.data<double>(), DTypeError, "f32(2,) on cpu");
  EXPECT_THROW(zeros({2}, DType::f32, Device::meta()).data<float>(), DeviceError);
}

TEST(Tensor, ItemConverts) {
  EXPECT_EQ(make_tensor({2.75}, {1, 1}).item<int>(), 2);
  EXPECT_EQ(make_tensor({2.75}, {}, DType::bf16).item<double>(), 2.75);
  EXPECT_EQ(full({}, (std::int64_t{1} << 53) + 1, DType::i64).item<std::int64_t>(), (std::int64_t{1} << 53) + 1);
  EXPECT_THROWS_SAYING(zeros({2}).item<float>(), ShapeError, "item: expected one element, got f32(2,) on cpu");
  EXPECT_THROW(zeros({0}).item<float>(), ShapeError);
  EXPECT_THROWS_SAYING(zeros({}, DType::f32, Device::meta()).item<float>(), DeviceError,
                       "item: f32() on meta holds no data");
}

TEST(Tensor, ToVectorIsRowMajor) {
  const Shape shape{1, 2, 2, 3};
  std::vector<double> values = test::random_tensor(shape).to_vector<double>();
  const Tensor x = empty_strided(shape, channels_last_strides(shape), DType::f64, {});
  const Tensor source = make_tensor(values, shape);
  for (int c = 0; c < 2; ++c)
    for (int hw = 0; hw < 6; ++hw)
      static_cast<double*>(x.write().data())[hw * 2 + c] = source.data<double>()[c * 6 + hw];
  EXPECT_EQ(x.to_vector<double>(), values);
  EXPECT_TRUE(zeros({0, 3}).to_vector<float>().empty());
  EXPECT_THROWS_SAYING(zeros({2}, DType::f32, Device::meta()).to_vector<float>(), DeviceError,
                       "to_vector: f32(2,) on meta holds no data");
}

TEST(Tensor, EmptyLikeKeepsDenseStridesOnly) {
  const Tensor x = empty({4, 6});
  const Tensor transposed = x.alias({6, 4}, {1, 6}, 0);
  EXPECT_EQ(empty_like(transposed).strides(), (Strides{1, 6}));
  const Tensor gaps = x.alias({4, 3}, {6, 2}, 0), repeated = x.alias({4, 6}, {0, 1}, 0);
  EXPECT_EQ(empty_like(gaps).strides(), (Strides{3, 1}));
  EXPECT_EQ(empty_like(repeated).strides(), (Strides{6, 1}));
  EXPECT_EQ(empty_like(x.alias({0, 4}, {1, 6}, 0)).strides(), (Strides{4, 1})) << "of nothing";
  EXPECT_EQ(empty_like(x, DType::u8).dtype(), DType::u8);
}

TEST(Tensor, EmptyStridedChecksThatEachElementHasItsPlace) {
  EXPECT_EQ(empty_strided({2, 3}, {1, 2}, DType::f32, {}).strides(), (Strides{1, 2}));
  EXPECT_THROWS_SAYING(empty_strided({2, 3}, {1, 1}, DType::f32, {}), ShapeError, "(1, 1)");
  EXPECT_THROW(empty_strided({2, 3}, {3}, DType::f32, {}), ShapeError);
  EXPECT_THROW(empty_strided({3}, {1, 3}, DType::f32, {}), ShapeError);
  EXPECT_THROW(empty_strided({2, 3}, {6, 2}, DType::f32, {}), ShapeError);
}

TEST(Tensor, HoldsMemoryAsLongAsAnyViewLives) {
  const std::size_t before = test::allocated();
  Tensor view;
  {
    const Tensor x = zeros({1000});
    view = x.alias({10}, {1}, 990);
    EXPECT_EQ(test::allocated() - before, test::rounded(4000));
  }
  EXPECT_EQ(test::allocated() - before, test::rounded(4000));
  view = Tensor();
  EXPECT_EQ(test::allocated(), before);
}

TEST(Tensor, SetDataKeepsIdentityRoleAndModule) {
  const memory::NameId module = memory::intern("net.fc");
  Tensor x = empty({2, 3});
  x.storage().set_role(memory::Role::parameter, module);
  const Tensor copy = x, data = empty_strided({2, 3}, {1, 2}, DType::f64, {});
  x.set_data(data);
  EXPECT_EQ(copy.dtype(), DType::f64);
  EXPECT_EQ(copy.strides(), (Strides{1, 2}));
  EXPECT_EQ(&copy.storage(), &data.storage());
  EXPECT_EQ(copy.storage().role(), memory::Role::parameter);
  EXPECT_EQ(copy.storage().module(), module);
  EXPECT_THROW(x.set_data(empty({3, 2})), ShapeError);
}

TEST(Tensor, ZeroElementsCostNothing) {
  const std::size_t before = test::allocated();
  const Tensor x = zeros({5, 0, 2});
  EXPECT_EQ(x.nbytes(), 0u);
  EXPECT_EQ(test::allocated(), before);
}

}  // namespace
}  // namespace bytetape
