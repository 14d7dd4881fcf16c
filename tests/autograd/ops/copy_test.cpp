#include "bytetape/autograd/ops/copy.h"

#include "bytetape/autograd/ops.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/copy.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/stand_in.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;

TEST(Clone, KeepsDenseStrides) {
  const Tensor x = permute(random_tensor({2, 5, 6, 3}), {0, 3, 1, 2}), y = clone(x);
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_NE(&y.storage(), &x.storage());
  EXPECT_EQ(clone(expand(random_tensor({3, 1}), {3, 4})).strides(), (Strides{4, 1}));
}

TEST(Contiguous, CopiesOnlyWhereItMust) {
  const Tensor x = random_tensor({3, 4});
  EXPECT_TRUE(contiguous(x).is_same(x));
  EXPECT_EQ(contiguous(transpose(x, 0, 1)).strides(), (Strides{3, 1}));
}

TEST(ChannelsLast, StoresNHWC) {
  const Tensor x = random_tensor({2, 3, 4, 5}), y = channels_last(x);
  EXPECT_EQ(y.strides(), (Strides{60, 1, 15, 3}));
  EXPECT_TRUE(channels_last(y).is_same(y));
  for (const Shape& both : {Shape{2, 1, 4, 5}, Shape{2, 3, 1, 1}, Shape{0, 3, 4, 5}}) {
    const Tensor z = random_tensor(both);
    EXPECT_TRUE(channels_last(z).is_same(z));
  }
}

// Sizes around the tile and strip of the transposing copy, against reading element by element.
TEST(CopyKernel, TransposesEverySize) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::u8})
    for (const std::int64_t c : {1, 7, 8, 16, 19, 33, 64})
      for (const std::int64_t hw : {3, 8, 13, 24, 144}) {
        const Tensor x = random_tensor({3, c, 1, hw}, dtype), nhwc = channels_last(x), back = contiguous(nhwc);
        const auto values = x.to_vector<double>();
        EXPECT_EQ(back.to_vector<double>(), values) << dtype << " " << c << " " << hw;
        const auto stored = nhwc.alias({3, hw, c}, {c * hw, c, 1}, 0).to_vector<double>();
        for (std::int64_t i = 0; i < 3 * c * hw; ++i)
          ASSERT_EQ(stored[static_cast<std::size_t>(i)],
                    values[static_cast<std::size_t>(i / (c * hw) * c * hw + i % c * hw + i / c % hw)])
              << dtype << " " << c << " " << hw << " at " << i;
      }
}

TEST(CopyKernel, TransposesPartsOfTensors) {
  const Tensor x = random_tensor({40, 30, 20}, DType::f32);
  const Tensor part = narrow(narrow(x, 0, 3, 33), 2, 1, 17), turned = transpose(part, 0, 2);
  Tensor y = empty({20, 30, 40}, DType::f32);
  zero_(y);
  Tensor place = narrow(narrow(y, 0, 2, 17), 2, 5, 33);
  copy_(place, turned);
  EXPECT_TRUE(all_close(place, turned));
  EXPECT_NEAR(sum(to(y, DType::f64)).item<double>(), sum(to(part, DType::f64)).item<double>(), 1e-9);
}

TEST(To, ConvertsDTypes) {
  const Tensor x = make_tensor({-1.5, 0, 2.75, 300}, {4});
  EXPECT_TRUE(to(x, DType::f64).is_same(x));
  EXPECT_EQ(to(x, DType::i32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, 0, 2, 300}));
  EXPECT_EQ(to(x, DType::boolean).to_vector<bool>(), (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(to(to(x, DType::bf16), DType::f64).to_vector<double>(), (std::vector<double>{-1.5, 0, 2.75, 300}));
  EXPECT_FALSE(to(random_leaf({3}), DType::i64).requires_grad());
}

TEST(To, ReachesMetaButNotBack) {
  const Tensor x = permute(random_tensor({2, 3, 4}), {2, 0, 1}), y = to(x, Device::meta());
  EXPECT_EQ(y.device(), Device::meta());
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_TRUE(to(x, Device::cpu()).is_same(x));
  EXPECT_THROWS_SAYING(to(y, Device::cpu()), DeviceError,
                       "to: cannot copy a meta tensor to cpu, because it has no data: got f64(4, 2, 3) on meta");
  Tensor target = random_tensor({4, 2, 3});
  EXPECT_THROWS_SAYING(copy_(target, y), DeviceError, "copy_: ");
}

TEST(To, MovesAndConvertsInOneOp) {
  const test::StandIn gpu;
  const Tensor x = random_leaf({3, 4}), y = to(x, Device::cuda(), DType::f32);
  EXPECT_EQ(y.device(), Device::cuda());
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(y.detach().to_vector<float>(), to(x, DType::f32).detach().to_vector<float>());
  sum(y * y).backward();
  EXPECT_TRUE(all_close(x.grad(), x.detach() * 2.0, 1e-6, 1e-6));
  EXPECT_TRUE(to(x, Device::cpu(), DType::f64).is_same(x));
  EXPECT_FALSE(to(x, Device::cuda(), DType::i64).requires_grad());
  EXPECT_THROWS_SAYING(to(to(x, Device::meta()), Device::cpu(), DType::f32), DeviceError, "because it has no data");
  for (const auto& move :
       {+[](const Tensor& t) { return to(t, DType::f32); }, +[](const Tensor& t) { return to(t, Device::meta()); },
        +[](const Tensor& t) { return to(t, Device::cpu(), DType::f32); }})
    EXPECT_THROWS_SAYING(move({}), ValueError, "to: the input is an undefined tensor");
}

// A batch stays a batch; a copy of anything else is a temporary.
TEST(To, KeepsTheRoleOfAnInputAndNoOther) {
  using memory::Role;
  for (const Role role : {Role::input, Role::parameter, Role::gradient, Role::temporary}) {
    Tensor x = random_tensor({3});
    x.storage().set_role(role);
    const Role expected = role == Role::input ? role : Role::temporary;
    EXPECT_EQ(to(x, DType::f32).storage().role(), expected);
    EXPECT_EQ(to(x, DType::i64).storage().role(), expected);
    EXPECT_EQ(to(x, Device::meta()).storage().role(), expected);
    EXPECT_EQ(clone(x).storage().role(), Role::temporary);
  }
  const Tensor w = random_leaf({3});
  const Tensor y = w * w;  // saved for backward
  ASSERT_EQ(w.storage().role(), Role::saved);
  EXPECT_EQ(to(w, DType::f32).storage().role(), Role::temporary);
}

TEST(CopyInPlace, ConvertsAndSoDoesItsGradient) {
  const Tensor a = random_leaf({2, 3}), b = random_leaf({3}, DType::f32), y = a * 2.0;
  copy_(y, b);
  EXPECT_TRUE(all_close(y, expand(to(b, DType::f64), {2, 3}).detach()));
  sum(y).backward();
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST(CopyInPlace, ReadsBeforeItWritesWithinOneStorage) {
  Tensor x = to(arange(6), DType::f64);
  Tensor later = narrow(x, 0, 1, 5);
  copy_(later, narrow(x, 0, 0, 5));
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0, 0, 1, 2, 3, 4}));
}

TEST(CopyInPlace, IntegersTakeNoGradient) {
  Tensor a = randint(0, 9, {3}), b = random_leaf({3});
  copy_(a, b);
  EXPECT_FALSE(a.requires_grad());
}

TEST(Fill, WritesBetweenWhatAViewLeavesOut) {
  const Tensor x = full({2, 3}, 2.5, DType::f64);
  zero_(narrow(x, 1, 1, 1));
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{2.5, 0, 2.5, 2.5, 0, 2.5}));
}

TEST(Fill, IsSeenBySavedTensors) {
  Tensor x = random_leaf({3});
  Tensor w = random_tensor({3});
  const Tensor y = x * w;
  zero_(w);
  EXPECT_THROWS_SAYING(y.backward(random_tensor({3})), AutogradError, "overwritten by 'zero_'");
}

TEST(CopyKernel, WidensAllAtOnce) {
  std::vector<Tensor> low, wide;
  for (const std::int64_t size : {1, 0, 7, 4097, 70'000})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      low.push_back(narrow(random_tensor({size + 1}, dtype), 0, 1, size));
      wide.push_back(narrow(zeros({size + 3}, DType::f32), 0, 1, size));
    }
  low.push_back(channels_last(random_tensor({3, 4, 5, 5}, DType::bf16)));
  wide.push_back(empty_like(low.back(), DType::f32));
  std::vector<ConstView> from;
  std::vector<View> to_views;
  for (std::size_t i = 0; i < low.size(); ++i) from.push_back(low[i].read()), to_views.push_back(wide[i].write());
  run<&CopyKernels::widen_all>(Device::cpu(), from, to_views);
  for (std::size_t i = 0; i < low.size(); ++i)
    EXPECT_EQ(wide[i].to_vector<float>(), to(low[i], DType::f32).to_vector<float>()) << describe(low[i]);
}

TEST(CopyKernel, CopiesAllAtOnce) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    std::vector<Tensor> x;
    std::vector<double> expected;
    for (const std::int64_t size : {1, 0, 7, 4097, 70'000}) {
      x.push_back(narrow(random_tensor({size + 1}, dtype), 0, 1, size));
      const std::vector<double> part = x.back().to_vector<double>();
      expected.insert(expected.end(), part.begin(), part.end());
    }
    EXPECT_EQ(cat(x).to_vector<double>(), expected) << dtype;
  }
}

// Integers have no gradient, and a copy into them is no op of the tape: views of them stay good.
TEST(CopyInPlace, IntoIntegersLeavesTheirViewsGood) {
  const Tensor a = zeros({3}, DType::i64), v = view(a, {3});
  copy_(a, test::make_tensor({1, 2, 3}, {3}).set_requires_grad());
  EXPECT_FALSE(a.requires_grad());
  EXPECT_EQ((v + 1).to_vector<int>(), (std::vector<int>{2, 3, 4}));
}

}  // namespace
}  // namespace bytetape
