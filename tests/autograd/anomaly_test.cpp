#include "bytetape/autograd/anomaly.h"

#include <limits>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;
using test::random_tensor;

constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Anomaly, NamesTheOpAndModuleOfANaNMadeInForward) {
  const DetectAnomaly detect;
  const memory::ModuleScope module(memory::intern("net.head"));
  const Tensor x = full({3}, inf, DType::f64);
  EXPECT_THROWS_SAYING(x - x, AutogradError, "sub in module 'net.head': the result, f64(3,) on cpu, holds a NaN");
}

TEST(Anomaly, NamesTheOpAndModuleOfANaNMadeInBackward) {
  const Tensor x = full({3}, 0, DType::f64).set_requires_grad();
  Tensor y;
  {
    const memory::ModuleScope module(memory::intern("net.body"));
    y = sqrt(x) * x;  // d sqrt(0) is 0 / 0
  }
  const DetectAnomaly detect;
  EXPECT_THROWS_SAYING(sum(y).backward(), AutogradError,
                       "sqrt in module 'net.body': a gradient made by backward, f64(3,) on cpu, holds a NaN");
}

TEST(Anomaly, NamesInPlaceOps) {
  const DetectAnomaly detect;
  Tensor x = full({3}, inf, DType::f64);
  EXPECT_THROWS_SAYING(x -= full({3}, inf, DType::f64), AutogradError, "sub_: the result");
}

// Of these nobody can say, or need not.
TEST(Anomaly, LooksAtNothingThatHasNoValues) {
  const DetectAnomaly detect;
  const auto count = [](const Tensor& x) {
    memory::Allocator& books = memory::allocator(x.defined() ? x.device() : Device());
    const std::uint64_t before = books.statistics().allocations;
    throw_if_nan(x, "a tensor");
    return books.statistics().allocations - before;
  };
  EXPECT_EQ(count(Tensor()), 0u);
  EXPECT_EQ(count(zeros({3}, DType::f32, Device::meta())), 0u);
  EXPECT_EQ(count(arange(3)), 0u);
  EXPECT_EQ(count(zeros({0})), 0u);
  EXPECT_EQ(count(zeros({3})), 1u);
  const Tensor x = zeros({3}, DType::f32, Device::meta()).set_requires_grad();
  sum(x * x).backward();  // is predicted
}

TEST(Anomaly, LetsInfinityAndOtherThreadsBe) {
  const Tensor x = full({2}, inf, DType::f32);
  {
    const DetectAnomaly detect;
    EXPECT_TRUE(detecting_anomaly());
    EXPECT_EQ((x + x).to_vector<float>(), x.to_vector<float>());
    EXPECT_NO_THROW(throw_if_nan(arange(3), "an integer tensor"));
    EXPECT_NO_THROW(throw_if_nan(zeros({0}), "an empty tensor"));
  }
  EXPECT_FALSE(detecting_anomaly());
  EXPECT_NO_THROW(x - x);
}

}  // namespace
}  // namespace bytetape
