#include "bytetape/autograd/why_alive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Net : nn::Module {
  nn::Linear fc1{16, 32}, fc2{32, 4};
  Net() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(tanh(fc1(x))); }
};

TEST(WhyAlive, IsThisText) {
  Net net;
  const Tensor x = randn({8, 16});
  const Tensor h = tanh(net.fc1(x)), loss = sum(net.fc2(h));
  EXPECT_EQ("\n" + why_alive(h, {{"loss", loss}}), R"(
f32(8, 32) on cpu, 1.00 KiB, saved for backward, allocated by tanh, is kept by
  linear in fc2, which saved it <- sum <- tensor 'loss'
  tanh, which saved it <- this tensor
)");
}

TEST(WhyAlive, NamesTheEndOfTheChainByWhatItLooksLike) {
  Tensor h;
  std::vector<Tensor> losses;
  Net net;
  {
    h = tanh(net.fc1(randn({8, 16})));
    losses.push_back(sum(net.fc2(h)));
  }
  EXPECT_THAT(
      why_alive(h),
      HasSubstr("linear in fc2, which saved it <- the program, by a result f32(8, 4) or what was made of it\n"));
  losses.clear();
  EXPECT_THAT(why_alive(h), Not(HasSubstr("fc2")));
}

TEST(WhyAlive, ShortensLongChains) {
  const Tensor x = rand({3}).set_requires_grad();
  Tensor y = log(x);
  for (int i = 0; i < 12; ++i) y = y * 2 + 1;
  EXPECT_THAT(why_alive(x, {{"y", y}}),
              HasSubstr("log, which saved it <- mul <- add <- 20 more <- mul <- add <- tensor 'y'\n"));
  y = ((log(x) * 2 + 1) * 2 + 1) * 2;
  EXPECT_THAT(why_alive(x, {{"y", y}}),
              HasSubstr("log, which saved it <- mul <- add <- mul <- add <- mul <- tensor 'y'\n"));
  y = y + 1;
  EXPECT_THAT(why_alive(x, {{"y", y}}),
              HasSubstr("log, which saved it <- mul <- add <- 2 more <- mul <- add <- tensor 'y'\n"));
}

TEST(WhyAlive, TakesTheShortestWay) {
  const Tensor w = randn({3}).set_requires_grad();
  const Tensor h = exp(w);
  Tensor far, near;
  {
    const Tensor y = log(h);
    far = sum(tanh(exp(y)));
    near = sum(y);
  }
  EXPECT_THAT(why_alive(h, {{"far", far}, {"near", near}}), HasSubstr("log, which saved it <- sum <- tensor 'near'\n"));
  near = {};
  EXPECT_THAT(why_alive(h, {{"far", far}}), HasSubstr("log, which saved it <- exp <- tanh <- sum <- tensor 'far'\n"));
}

// Wherever among its users the end of the shortest way was recorded.
TEST(WhyAlive, TakesTheShortestWayOfMany) {
  const Tensor w = randn({3}).set_requires_grad();
  const Tensor h = exp(w);
  Tensor before, near, after;
  {
    const Tensor y = log(h);
    before = sum(y * 2 + 1);
    near = sum(y);
    after = sum(y * 2 + 1);
  }
  EXPECT_THAT(why_alive(h, {{"before", before}, {"near", near}, {"after", after}}),
              HasSubstr("log, which saved it <- sum <- tensor 'near'\n"));
}

TEST(WhyAlive, KnowsParametersGradientsAndOptimizerState) {
  Net net;
  sum(net(randn({8, 16}))).backward();
  const Tensor g = net.fc1.weight.grad();
  EXPECT_EQ(why_alive(net.fc1.weight),
            "f32(32, 16) on cpu, 2.00 KiB, parameter, allocated by parameter 'weight' of Linear in fc1, is kept by\n"
            "  a parameter or a buffer of fc1\n");
  EXPECT_THAT(why_alive(net.fc1.weight, net.named_parameters()), HasSubstr("is kept by\n  tensor 'fc1.weight'\n"));
  EXPECT_THAT(why_alive(g), HasSubstr("  a leaf of fc1, as its gradient\n"));
  EXPECT_THAT(why_alive(g, net.named_parameters()), HasSubstr("  tensor 'fc1.weight', as its gradient\n"));
  const Tensor state = empty({4}, DType::f32, Device::cpu(), memory::Role::optimizer_state);
  EXPECT_THAT(why_alive(state), HasSubstr("  an optimizer\n"));
}

TEST(WhyAlive, AParameterIsKeptByGraphsThatUseIt) {
  Net net;
  const Tensor loss = sum(net(randn({8, 16})));
  const std::string text = why_alive(net.fc2.weight, {{"loss", loss}});
  EXPECT_THAT(text, HasSubstr("  linear in fc2, which saved it <- sum <- tensor 'loss'\n"));
  EXPECT_THAT(text, HasSubstr("  accumulate_grad in fc2, which collects its gradient <- linear in fc2 <- sum <- "));
}

TEST(WhyAlive, CountsWhatItCannotName) {
  const Tensor x = randn({4, 4});
  EXPECT_THAT(why_alive(x), HasSubstr("is kept by\n  this tensor alone\n"));
  const Tensor row = select(x, 0, 0), column = select(x, 1, 0), copy = x;
  const std::string text = why_alive(x);
  EXPECT_THAT(text, HasSubstr("\n  2 other tensors that share its bytes\n"));
  EXPECT_THAT(text, HasSubstr("\n  1 other handle of it\n"));
  EXPECT_THAT(why_alive(x, {{"row", row}}), HasSubstr("  tensor 'row'\n  1 other tensor that shares its bytes\n"));
  EXPECT_THAT(why_alive(x, {{"x", x}}), HasSubstr("  tensor 'x'\n"));
}

TEST(WhyAlive, SeesThroughCheckpoints) {
  Net net;
  const Tensor x = randn({8, 16}).set_requires_grad();
  const Tensor h = x * 1;
  const Tensor loss = sum(checkpoint(net, h));
  EXPECT_THAT(why_alive(h, {{"loss", loss}}), HasSubstr(", which saved it <- "));
}

// Whatever keeps a graph is named or counted, and nothing twice.
TEST(WhyAlive, NamesEveryKindOfKeeper) {
  const Tensor x = rand({3}).set_requires_grad();
  Tensor h = x * 2;
  const Tensor twice = h * h;
  const std::string text = why_alive(h, {{"nothing", Tensor()}, {"twice", twice}});
  EXPECT_EQ(text.find("mul, which saved it"), text.rfind("mul, which saved it")) << "by one node, twice";
  EXPECT_THAT(text, HasSubstr("mul, which saved it <- tensor 'twice'\n"));
  Tensor w = rand({3}).set_requires_grad();
  h.backward(ones({3}), true);
  sum(w * w * w).backward({}, false, true);
  EXPECT_THAT(why_alive(w, {{"w", w}}), HasSubstr("<- the gradient of tensor 'w'\n"));
  w.set_grad({});
  const Tensor copy = empty({4}, DType::bf16, Device::cpu(), memory::Role::autocast_copy);
  EXPECT_THAT(why_alive(copy), HasSubstr("a parameter of ")) << "which it is a copy of";
  EXPECT_THAT(why_alive(copy), HasSubstr(", as its copy in 16 bits\n"));
}

// Handles that the graph has are counted as the graph's.
TEST(WhyAlive, CountsNoHandleOfTheGraphAsAnother) {
  const Tensor x = rand({3}).set_requires_grad();
  const Tensor loss = sum(x + 1);  // its accumulator holds x
  EXPECT_THAT(why_alive(x, {{"loss", loss}}), Not(HasSubstr("other")));
  const Tensor h = rand({3}).set_requires_grad() * 1, y = sum(checkpoint([](const Tensor&t) { return exp(t); }, h));
  EXPECT_THAT(why_alive(h, {{"y", y}}), Not(HasSubstr("other")));
  EXPECT_THAT(why_alive(h, {{"y", y}}), HasSubstr("<- tensor 'y'\n"));
}

TEST(WhyAlive, OfMemoryThatIsWrapped) {
  std::vector<float> data(4);
  const Tensor x = from_blob(data.data(), {4}, DType::f32);
  EXPECT_THAT(why_alive(x), HasSubstr("16 B, on no books, is kept by\n  this tensor alone"));
}

TEST(WhyAlive, ChangesNothing) {
  Net net;
  const Tensor h = tanh(net.fc1(randn({8, 16}))), loss = sum(net.fc2(h));
  const std::string first = why_alive(h, {{"loss", loss}});
  EXPECT_EQ(why_alive(h, {{"loss", loss}}), first);
  loss.backward();
  EXPECT_TRUE(net.fc1.weight.grad().defined());
  EXPECT_EQ(why_alive(h, {{"loss", loss}}).find("saved it"), std::string::npos) << "backward let go of it";
}

TEST(WhyAlive, OfWhatGrewSaysHowOftenAndWhy) {
  Net net;
  std::vector<Tensor> losses;
  losses.reserve(8);
  const Tensor x = randn({8, 16});
  const memory::Holdings before = memory::mark();
  for (int i = 0; i < 5; ++i) losses.push_back(sum(net(x)));
  const std::string text = why_alive(memory::diff(before, memory::mark()));
  EXPECT_THAT(text,
              HasSubstr("+5.00 KiB, saved for backward, allocated by tanh in (root) Net; all such blocks are kept by\n"
                        "  5 x linear in fc2, which saved it <- the program, by a result f32(8, 4) or what was "
                        "made of it\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "allocated by sum; all such blocks are kept by\n  5 x tensors that the program holds, which no op saved\n"));
  EXPECT_EQ(why_alive(memory::diff(before, before)), "");
}

TEST(WhyAlive, OfWhatGrewTellsRowsApart) {
  const Tensor x = randn({8, 16}).set_requires_grad(), kept = sum(exp(x) * exp(x));  // of one op, in two roles
  const memory::Holdings before = memory::mark();
  std::vector<Tensor> all;
  {
    const memory::ModuleScope first(memory::intern("first"));
    for (int i = 0; i < 2; ++i) all.push_back(exp(x) * 1);
  }
  const memory::ModuleScope second(memory::intern("second"));
  for (int i = 0; i < 3; ++i) all.push_back(exp(x));
  all.push_back(randn({8, 16}));
  const std::string text = why_alive(memory::diff(before, memory::mark()));
  const std::string first = "saved for backward, allocated by exp in first; all such blocks are kept by\n  2 x ",
                    second_row = "saved for backward, allocated by exp in second; all such blocks are kept by\n  3 x ";
  EXPECT_THAT(text, HasSubstr(first));
  EXPECT_THAT(text, HasSubstr(second_row));
  EXPECT_THAT(text, HasSubstr("allocated by randn in second; all such blocks are kept by\n  1 x tensors that"));
}

// Ops and roles in one module.
TEST(WhyAlive, OfWhatGrewCountsTheBlocksOfARowAlone) {
  const Tensor x = randn({8, 16}).set_requires_grad();
  const memory::Holdings before = memory::mark();
  const memory::ModuleScope module(memory::intern("here"));
  std::vector<Tensor> all;
  for (int i = 0; i < 2; ++i) all.push_back(exp(x));
  for (int i = 0; i < 3; ++i) all.push_back(tanh(x));
  for (int i = 0; i < 4; ++i) all.push_back(exp(x.detach()));
  const std::string text = why_alive(memory::diff(before, memory::mark()));
  const auto says = [&](const char* row, const char* reason) {
    return text.find(detail::concat(row, " in here; all such blocks are kept by\n  ", reason)) != std::string::npos;
  };
  EXPECT_TRUE(says("saved for backward, allocated by exp", "2 x exp in here, which saved it")) << text;
  EXPECT_TRUE(says("saved for backward, allocated by tanh", "3 x tanh in here, which saved it")) << text;
  EXPECT_TRUE(says("temporary, allocated by exp", "4 x tensors that the program holds")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
}

TEST(WhyAlive, OfWhatGrewShowsRowsThatGrewAndThreeReasonsOfEach) {
  const Tensor x = randn({8, 16}).set_requires_grad();
  std::vector<Tensor> gone(1, randn({50, 50})), results;
  const memory::Holdings before = memory::mark();
  gone.clear();
  using Op = Tensor (*)(const Tensor&);
  int count = 0;
  for (const Op f : {Op{erf}, Op{log}, Op{abs}, Op{silu}}) {
    ++count;
    for (int i = 0; i < count; ++i) results.push_back(f(x * 1));
  }
  const std::string text = why_alive(memory::diff(before, memory::mark()));
  EXPECT_THAT(text, testing::ContainsRegex("mul; .*\n  4 x silu.*\n  3 x abs.*\n  2 x log.*\n  1 more\n"));
  EXPECT_THAT(text, Not(HasSubstr("randn")));
  results.resize(6);  // those of erf, log and abs
  EXPECT_THAT(why_alive(memory::diff(before, memory::mark())),
              testing::ContainsRegex("mul; .*\n  3 x abs.*\n  2 x log.*\n  1 x erf[^\n]*\n(\\+|$)"));
}

TEST(WhyAlive, RefusesAnUndefinedTensor) { EXPECT_THROWS_SAYING(why_alive(Tensor()), ValueError, "undefined"); }

TEST(WhyAlive, NamesTheOpWhoseResultIsRecomputed) {
  const Recompute recompute;
  const Tensor w = test::random_leaf({5, 4}), h = test::random_leaf({3, 4}) * 2, loss = sum(linear(gelu(h), w));
  const std::string text = why_alive(h, {{"loss", loss}});
  EXPECT_THAT(text, HasSubstr("linear"));
  EXPECT_THAT(text, Not(HasSubstr("the program"))) << text;
}

}  // namespace
}  // namespace bytetape
