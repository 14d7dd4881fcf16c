// The 16-bit copies of parameters that Autocast keeps.
#include "bytetape/autograd/autocast.h"

#include <functional>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

Tensor of(DType dtype, const Shape& shape) { return random_tensor(shape, dtype); }
std::size_t held() { return test::held_as(memory::Role::autocast_copy); }

/// The largest value of each is near 1 in these tests: within a few roundings of 8 bits.
testing::AssertionResult near(const Tensor& actual, const Tensor& expected) {
  return all_close(actual, expected, 0.03, 0.03);
}

std::size_t copies_made(const std::function<void()>& f) {
  memory::Allocator& a = memory::allocator(Device::cpu());
  a.reset_log();
  f();
  std::size_t n = 0;
  for (const memory::Event& e : a.snapshot().events)
    n += e.kind == memory::EventKind::alloc && e.role == memory::Role::autocast_copy;
  return n;
}

TEST(Autocast, CopiesAParameterOnceAVersion) {
  nn::Linear l(3, 4);
  const Tensor x = of(DType::f32, {2, 3});
  const std::uint32_t version = l.weight.storage().version();
  const Autocast autocast(DType::bf16);
  EXPECT_EQ(copies_made([&] { sum(l(x) + l(x)).backward(), l(x); }), 2u);  // weight and bias
  EXPECT_EQ(held(), test::rounded(24) + test::rounded(8));
  EXPECT_EQ(l.weight.storage().shadow().storage->version(), 1u);
  EXPECT_EQ(l.weight.storage().version(), version);
  {
    const NoGrad no_grad;
    fill_(l.weight, 2);
    fill_(l.bias, 1);
    EXPECT_EQ(copies_made([&] {
                EXPECT_EQ(l(ones({1, 3})).to_vector<float>(), std::vector<float>(4, 7));
              }),
              0u)
        << "made in place";
  }
  EXPECT_EQ(l.weight.storage().shadow().storage->version(), 2u);
}

TEST(Autocast, CopyEndsWithItsParameter) {
  const Autocast autocast(DType::bf16);
  {
    nn::Linear l(3, 4);
    l(of(DType::f32, {2, 3}));
    EXPECT_GT(held(), 0u);
    l.to(DType::f64);
    EXPECT_EQ(held(), 0u);
  }
  Tensor w = random_leaf({4, 3}, DType::f32);
  linear(of(DType::f32, {2, 3}), w);
  EXPECT_GT(held(), 0u);
  w = {};
  EXPECT_EQ(held(), 0u);
}

TEST(Autocast, CopyIsBookedUnderTheParametersModule) {
  nn::Sequential net(nn::Linear(3, 4));
  nn::Sequential root;
  root.push_back("net", std::move(net));
  memory::allocator(Device::cpu()).reset_peaks();
  const Autocast autocast(DType::bf16);
  root(of(DType::f32, {2, 3}));
  const auto snapshot = memory::allocator(Device::cpu()).snapshot();
  const memory::NameId module = root.parameters()[0].storage().module();
  EXPECT_NE(module, 0u);
  EXPECT_EQ(snapshot.by_module.at(module)[static_cast<std::size_t>(memory::Role::autocast_copy)], held());
  EXPECT_THAT(memory::summarize(snapshot), testing::HasSubstr("autocast copy"));
}

TEST(Autocast, CopyGetsTheModuleOfAParameterThatIsRegisteredElsewhere) {
  const auto fc = std::make_shared<nn::Linear>(3, 4);
  const Autocast autocast(DType::bf16);
  (*fc)(of(DType::f32, {2, 3}));
  const std::size_t copies = held();
  EXPECT_GT(copies, 0u);
  struct Net : nn::Module {
    explicit Net(const std::shared_ptr<nn::Linear>& fc) { register_module("fc", fc); }
  };
  const Net net(fc);
  const auto snapshot = memory::allocator(Device::cpu()).snapshot();
  EXPECT_EQ(snapshot.by_module.at(memory::intern("fc")).at(static_cast<std::size_t>(memory::Role::autocast_copy)),
            copies);
}

TEST(Autocast, CopiesNothingButParameters) {
  const Autocast autocast(DType::bf16);
  const Tensor x = of(DType::f32, {2, 3}), w = of(DType::f32, {4, 3});
  EXPECT_EQ(copies_made([&] { linear(x, w), matmul(x, transpose(random_leaf({4, 3}, DType::f32), 0, 1)); }), 0u);
}

TEST(Autocast, FrozenLayersAndEvaluation) {
  nn::Linear l(3, 4);
  const Tensor x = of(DType::f32, {2, 3});
  const Tensor expected = l(x).detach();
  const Autocast autocast(DType::f16);
  const NoGrad no_grad;
  l.weight.set_requires_grad(false);
  EXPECT_EQ(copies_made([&] { l(x), l(x); }), 2u);
  EXPECT_TRUE(near(l(x), expected));
}

TEST(Autocast, SaysWhereAParameterWasWrittenBeforeBackward) {
  nn::Linear l(3, 4);
  const Autocast autocast(DType::bf16);
  const Tensor x = random_leaf({2, 3}, DType::f32), y = sum(l(x));
  {
    const NoGrad no_grad;
    mul_(l.weight, 2);
  }
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(Autocast, OptimizersWriteTheCopy) {
  for (const bool adam : {false, true}) {
    nn::Linear l(3, 4);
    std::unique_ptr<optim::Optimizer> optimizer;
    if (adam)
      optimizer = std::make_unique<optim::Adam>(l.parameters(), optim::AdamOptions{});
    else
      optimizer = std::make_unique<optim::SGD>(l.parameters(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    const Tensor x = of(DType::f32, {2, 3});
    const Autocast autocast(DType::bf16);
    for (int i = 0; i < 3; ++i) {
      sum(l(x)).backward();
      optimizer->step();
      for (const Tensor& p : l.parameters()) {
        Storage& s = p.storage();
        EXPECT_EQ(s.shadow().version, s.version());
        const auto* copy = static_cast<const BFloat16*>(s.shadow().storage->data());
        const auto values = to(p.detach(), DType::bf16).to_vector<float>();
        for (std::size_t k = 0; k < values.size(); ++k) EXPECT_EQ(static_cast<float>(copy[k]), values[k]);
      }
    }
    // One write of the forward, then one a step.
    EXPECT_EQ(l.weight.storage().shadow().storage->version(), 4u);
    // One that is not up to date is left for the next forward.
    {
      const NoGrad no_grad;
      mul_(l.weight, 2);
    }
    optimizer->step();
    EXPECT_NE(l.weight.storage().shadow().version, l.weight.storage().version());
    EXPECT_TRUE(near(l(x), linear(x, l.weight.detach(), l.bias.detach())));
  }
}

TEST(Autocast, CopiesNoParameterThatIsLowAlready) {
  const Tensor w = random_leaf({4, 3}, DType::bf16), x = of(DType::f32, {2, 3});
  const Autocast autocast(DType::f16);
  Tensor y;
  EXPECT_EQ(copies_made([&] { y = linear(x, w); }), 0u);
  EXPECT_EQ(y.dtype(), DType::f16);
  sum(y).backward();
  EXPECT_EQ(w.grad().dtype(), DType::bf16);
  EXPECT_TRUE(near(to(y, DType::f32), linear(to(x, DType::f16), to(w.detach(), DType::f16))));
}

TEST(Autocast, BackwardReadsTheCopyToo) {
  nn::Linear l(64, 48, /*bias=*/false);
  l.weight.set_requires_grad(false);
  const Tensor x = random_leaf({2, 64}, DType::f32);
  Tensor y;
  {
    const Autocast autocast(DType::bf16);
    y = sum(l(x));
  }
  memory::Allocator& books = memory::allocator(Device::cpu());
  books.reset_log();
  y.backward();
  for (const memory::Event& e : books.snapshot().events)
    if (e.kind == memory::EventKind::alloc && e.role != memory::Role::workspace) {
      EXPECT_LT(e.requested, l.weight.nbytes() / 2) << memory::name_of(e.op);
    }
}

}  // namespace
}  // namespace bytetape
