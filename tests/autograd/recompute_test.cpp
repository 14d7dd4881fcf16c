#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

Tensor squared(const Tensor& x) { return x * x; }

struct Net {
  Tensor x = random_tensor({3, 4, 9, 7}, DType::f64), first = random_tensor({8, 4, 3, 3}, DType::f64),
         second = random_tensor({5, 8, 3, 3}, DType::f64), weight = random_tensor({8}, DType::f64),
         bias = random_tensor({8}, DType::f64);

  Net() {
    for (Tensor* t : {&x, &first, &second, &weight, &bias}) t->set_requires_grad();
  }
  std::vector<Tensor> inputs() const { return {x, first, second, weight, bias}; }
  Tensor normalised() const {
    return batch_norm(conv2d(x, first), weight, bias, {}, {}, true, 0.1, 1e-5, Activation::relu);
  }
  Tensor operator()() const { return conv2d(normalised(), second); }
};

TEST(Recompute, GivesTheSameGradientsFromLessMemory) {
  const Net net;
  const auto run = [&](bool recomputes) {
    Tensor y;
    std::size_t saved = 0;
    {
      std::optional<Recompute> recompute;
      if (recomputes) recompute.emplace();
      y = net();
      saved = held_as(memory::Role::saved);
    }
    EXPECT_FALSE(recomputing());
    std::vector<Tensor> grads = grad({y}, net.inputs(), {.seeds = {ones_like(y) * 0.7}});
    return std::pair(grads, saved);
  };
  const auto [kept, kept_bytes] = run(false);
  const auto [made, made_bytes] = run(true);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].to_vector<double>(), made[i].to_vector<double>());
  EXPECT_EQ(kept_bytes - made_bytes, rounded(3 * 8 * 7 * 5 * sizeof(double)));
}

// A kernel that reads such rows may add them in another order than those of the stored sum.
TEST(Recompute, SavesTheResultOfASumOfRowsThatAreNotAligned) {
  const auto saved = [](std::int64_t offset, bool recomputes) {
    const Tensor weight = random_leaf({12}, DType::f32), next = random_leaf({5, 12}, DType::f32);
    const Tensor x = reshape(narrow(random_leaf({64}, DType::f32), 0, offset, 48), {4, 12});
    std::optional<Recompute> recompute;
    if (recomputes) recompute.emplace(true);
    const std::size_t before = held_as(memory::Role::saved);
    const Tensor y = linear(add_layer_norm(x, random_tensor({4, 12}, DType::f32), {12}, weight).y, next);
    return held_as(memory::Role::saved) - before;
  };
  EXPECT_EQ(saved(4, false) - saved(4, true), rounded(4 * 12 * sizeof(float)));
  EXPECT_EQ(saved(1, false), saved(1, true));
}

TEST(Recompute, LastsForGraphsThatStay) {
  const Net net;
  const auto gradients = [&](const GradOptions& options) {
    const Recompute recompute;
    const Tensor y = net();
    const Tensor first = grad({sum(y * y)}, {net.x}, options)[0];
    if (options.create_graph) return grad({sum(first * first)}, {net.second})[0];
    return grad({sum(y * y)}, {net.x}, options)[0] - first;
  };
  EXPECT_TRUE(all_close(gradients({.retain_graph = true}), zeros_like(net.x), 0, 0));
  const Tensor twice = gradients({.create_graph = true});
  const Tensor y = net(), first = grad({sum(y * y)}, {net.x}, {.create_graph = true})[0];
  EXPECT_TRUE(all_close(twice, grad({sum(first * first)}, {net.second})[0], 1e-12, 1e-12));
}

TEST(Recompute, KeepsWhatWasOverwrittenBefore) {
  const Net net;
  const auto gradient = [&](bool recomputes) {
    Tensor y = net.normalised();
    {
      const NoGrad no_grad;
      y *= 2;
    }
    std::optional<Recompute> recompute;
    if (recomputes) recompute.emplace();
    return grad({sum(conv2d(y, net.second))}, {net.second})[0];
  };
  EXPECT_EQ(gradient(true).to_vector<double>(), gradient(false).to_vector<double>());
}

TEST(Recompute, RemakesNoResultThatItsInputDoesNotTell) {
  const Net net;
  const Tensor added = random_leaf({3, 8, 7, 5});
  for (const Activation activation : {Activation::none, Activation::relu}) {
    const auto gradients = [&] {
      const Tensor x = conv2d(net.x, net.first);
      const Tensor y =
          conv2d(batch_norm(x, net.weight, net.bias, {}, {}, true, 0.1, 1e-5, activation, added), net.second);
      return grad({sum(y * y)}, {net.x, net.second, added});
    };
    const std::vector<Tensor> expected = gradients();
    const Recompute recompute;
    const std::vector<Tensor> found = gradients();
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(all_close(found[i], expected[i]));
  }
}

TEST(Recompute, LeadsSecondDerivativesToEveryInput) {
  const Net net;
  const auto second = [&] {
    const Tensor y = net(), first = grad({sum(y * y)}, {net.second}, {.create_graph = true})[0];
    return grad({sum(first * first)}, net.inputs());
  };
  const std::vector<Tensor> expected = second();
  const Recompute recompute;
  const std::vector<Tensor> found = second();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(all_close(found[i], expected[i])) << i;
}

/// An op whose result y of x (3, 7, 8) a linear layer takes. The result is recomputed, not saved.
struct RemadeCase {
  const char* name;
  int results;  // that are recomputed
  Tensor (*y)(const Tensor& x, const Tensor& by_column, const Tensor& square);
};
void PrintTo(const RemadeCase& c, std::ostream* os) { *os << c.name; }

class RecomputeOf : public ::testing::TestWithParam<RemadeCase> {
 protected:
  Tensor x = random_leaf({3, 7, 8}), by_column = random_leaf({8}), square = random_leaf({8, 8}),
         weight = random_leaf({5, 8}), seed = random_tensor({3, 7, 5});

  Tensor output() const { return linear(GetParam().y(x * 2, by_column, square), weight); }
  std::vector<Tensor> inputs() const { return {x, by_column, square, weight}; }
};

TEST_P(RecomputeOf, GivesTheSameBitsFromLessMemory) {
  const auto run = [&](bool recomputes) {
    Tensor y;
    std::size_t held = memory::stats().allocated.current;
    {
      std::optional<Recompute> recompute;
      if (recomputes) recompute.emplace();
      y = output();
      held = memory::stats().allocated.current - held;
    }
    return std::pair(grad({y}, inputs(), {.seeds = {seed}, .allow_unused = true}), held);
  };
  const auto [kept, kept_bytes] = run(false);
  const auto [made, made_bytes] = run(true);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    ASSERT_EQ(kept[i].defined(), made[i].defined());
    if (!kept[i].defined()) continue;
    EXPECT_EQ(kept[i].to_vector<double>(), made[i].to_vector<double>()) << i;
  }
  EXPECT_EQ(kept_bytes - made_bytes, GetParam().results * rounded(3 * 7 * 8 * sizeof(double)));
}

TEST_P(RecomputeOf, LeadsSecondDerivativesToEveryInput) {
  const auto second = [&] {
    const Tensor y = output(), first = grad({sum(y * y)}, {weight}, {.create_graph = true})[0];
    return grad({sum(first * first)}, inputs(), {.allow_unused = true});
  };
  const std::vector<Tensor> expected = second();
  const Recompute recompute;
  const std::vector<Tensor> found = second();
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(expected[i].defined(), found[i].defined());
    if (!found[i].defined()) continue;
    EXPECT_TRUE(all_close(found[i], expected[i], 1e-12, 1e-12)) << i;
  }
}

TEST_P(RecomputeOf, SavesAResultThatWasOverwritten) {
  const auto gradient = [&](bool recomputes) {
    std::optional<Recompute> recompute;
    if (recomputes) recompute.emplace();
    const Tensor y = GetParam().y(x * 2, by_column, square);
    {
      const NoGrad no_grad;
      y *= 3;
    }
    return grad({linear(y, weight)}, {weight}, {.seeds = {seed}})[0];
  };
  EXPECT_EQ(gradient(true).to_vector<double>(), gradient(false).to_vector<double>());
}

constexpr RemadeCase remade_cases[] = {
    {"gelu", 1, [](const Tensor& x, const Tensor&, const Tensor&) { return gelu(x); }},
    {"gelu_tanh", 1, [](const Tensor& x, const Tensor&, const Tensor&) { return gelu(x, Approximate::tanh); }},
    {"silu", 1, [](const Tensor& x, const Tensor&, const Tensor&) { return silu(x); }},
    {"linear_gelu_tanh", 1,
     [](const Tensor& x, const Tensor& b, const Tensor& w) { return linear(x, w, b, Activation::gelu_tanh); }},
    {"layer_norm", 1,
     [](const Tensor& x, const Tensor& w, const Tensor& s) { return layer_norm(x, {8}, w, select(s, 0, 3)); }},
    {"layer_norm_alone", 1, [](const Tensor& x, const Tensor&, const Tensor&) { return layer_norm(x, {8}); }},
    {"add_layer_norm", 1,
     [](const Tensor& x, const Tensor& w, const Tensor& s) {
       return add_layer_norm(x, x * 3, {8}, w, select(s, 0, 3)).y;
     }},
    {"rms_norm", 1, [](const Tensor& x, const Tensor& w, const Tensor&) { return rms_norm(x, {8}, w); }},
    {"reshape", 1,
     [](const Tensor& x, const Tensor& w, const Tensor&) {
       return reshape(rms_norm(reshape(x, {21, 8}), {8}, w), {3, 7, 8});
     }},
    {"gelu_of_layer_norm", 1,
     [](const Tensor& x, const Tensor& w, const Tensor&) { return gelu(layer_norm(x, {8}, w)); }},
};
INSTANTIATE_TEST_SUITE_P(Results, RecomputeOf, ::testing::ValuesIn(remade_cases),
                         [](const auto& info) { return info.param.name; });

TEST(Recompute, LeavesTheSumOfANormAlone) {
  const Tensor x = random_leaf({4, 6}), added = random_leaf({4, 6}), weight = random_leaf({5, 6}),
               scale = random_leaf({6});
  const auto gradients = [&] {
    const AddLayerNorm made = add_layer_norm(x * 2, added, {6}, scale);
    return grad({sum(linear(made.sum, weight)), sum(made.y * made.y)}, {x, added, weight, scale});
  };
  const std::vector<Tensor> expected = gradients();
  const Recompute recompute;
  const std::vector<Tensor> found = gradients();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].to_vector<double>(), expected[i].to_vector<double>()) << i;
}

/// x^2 and x^3 from one node, which can remake the first of its outputs, as can_remake() says.
struct PowersBackward final : Node {
  Saved x{this};
  bool can_remake(const Tensor&) const override { return x.is_intact(); }
  Tensor remake() const override { return squared(x.get()); }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor v = x.get();
    gx[0] = gy[0] * v * 2 + gy[1] * v * v * 3;
  }
};

// A node is not asked for another output than its first, whatever it would say.
TEST(Recompute, RemakesOnlyTheFirstOutputOfANode) {
  const Tensor x = random_leaf({4, 6}), first = random_leaf({5, 6}), second = random_leaf({5, 6});
  const auto gradients = [&] {
    const Tensor v = x.detach(), square = v * v, cube = square * v;
    if (auto* node = record_outputs<PowersBackward>({square, cube}, x)) node->x.save(x);
    return grad({sum(linear(square, first) * linear(cube, second))}, {x, first, second});
  };
  const std::vector<Tensor> expected = gradients();
  const Recompute recompute;
  const std::vector<Tensor> found = gradients();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].to_vector<double>(), expected[i].to_vector<double>()) << i;
}

TEST(Recompute, RoundsA16BitNormAsForwardDoes) {
  const Tensor x = random_leaf({9, 40}, DType::f32), added = random_leaf({9, 40}, DType::f32),
               first = random_leaf({40, 40}, DType::f32), second = random_leaf({5, 40}, DType::f32),
               scale = random_leaf({40}, DType::f32);
  const auto gradients = [&] {
    const Autocast autocast(DType::bf16);
    const Tensor y = add_layer_norm(linear(x, first), added, {40}, scale, scale).y;
    EXPECT_EQ(y.dtype(), DType::bf16);
    return grad({sum(linear(y, second))}, {x, added, first, second, scale});
  };
  const std::vector<Tensor> expected = gradients();
  const Recompute recompute;
  const std::vector<Tensor> found = gradients();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].to_vector<float>(), expected[i].to_vector<float>()) << i;
}

TEST(Recompute, OfAChainRecomputesEachResultOnce) {
  const Tensor x = random_leaf({4});
  const auto gradient = [&](int length, bool recomputes) {
    std::optional<Recompute> recompute;
    if (recomputes) recompute.emplace();
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = silu(y);  // a recursion over all of them would overflow the stack
    return grad({sum(y)}, {x})[0].to_vector<double>();
  };
  for (const int length : {1, 2, 7, 20'000}) EXPECT_EQ(gradient(length, true), gradient(length, false)) << length;
}

TEST(Recompute, SavesAResultWhoseInputWasOverwritten) {
  const Tensor x = random_leaf({4, 6}), weight = random_leaf({5, 6});
  const auto gradient = [&](bool recomputes) {
    std::optional<Recompute> recompute;
    if (recomputes) recompute.emplace();
    const Tensor scaled = x * 2, y = gelu(scaled);
    {
      const NoGrad no_grad;
      scaled *= 2;
    }
    return grad({sum(linear(y, weight))}, {weight})[0].to_vector<double>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// The second run must save what the first one saved, also if backward runs outside of the scope.
TEST(Recompute, ActsInBothRunsOfACheckpoint) {
  const Tensor x = random_leaf({4, 8}), w = random_leaf({8}), b = random_leaf({8}), out = random_leaf({5, 8});
  const auto gradients = [&](bool recomputes_forward, bool recomputes_backward) {
    Tensor loss;
    {
      std::optional<Recompute> recompute;
      if (recomputes_forward) recompute.emplace();
      const auto part = [&](const Tensor& in) {
        return linear(gelu(rms_norm(layer_norm(in, {8}, w, b * 1), {8}, w * 1)), out);
      };
      loss = sum(squared(checkpoint(part, x * 2)));
    }
    std::optional<Recompute> recompute;
    if (recomputes_backward) recompute.emplace();
    std::vector<std::vector<double>> all;
    for (const Tensor& g : grad({loss}, {x, w, b, out})) all.push_back(g.to_vector<double>());
    return all;
  };
  for (const bool forward : {false, true})
    for (const bool backward : {false, true}) EXPECT_EQ(gradients(forward, backward), gradients(false, false));
}

TEST(Recompute, BooksARemadeResultWhereItWasMade) {
  std::vector<std::string> ops;
  for (const memory::Event& e : record_events(Device::cpu(), [&](Device) {
         const Tensor x = random_leaf({64, 64}, DType::f32), weight = random_leaf({64, 64}, DType::f32);
         const Recompute recompute;
         sum(linear(view(layer_norm(view(x * 2, {8, 8, 64}), {64}), {64, 64}), weight)).backward();
       }))
    if (e.kind == memory::EventKind::alloc && e.phase == memory::Phase::backward && e.requested == 64 * 64 * 4)
      ops.emplace_back(memory::name_of(e.op));
  EXPECT_EQ(std::ranges::count(ops, "layer_norm"), 2) << "the result and the gradient";
  EXPECT_EQ(std::ranges::count(ops, "view"), 0);
}

TEST(Recompute, SaysThatTheTensorsOfTheOpAreFreed) {
  const Tensor x = random_leaf({4, 6}), weight = random_leaf({5, 6});
  const Recompute recompute;
  for (const bool is_view : {false, true}) {
    const Tensor made = gelu(x * 2), y = is_view ? reshape(made, {2, 2, 6}) : made, before = linear(y, weight);
    grad({sum(y)}, {x});
    EXPECT_THROWS_SAYING(grad({sum(before)}, {weight}), AutogradError, "already freed");
    EXPECT_THROWS_SAYING(grad({sum(linear(y, weight))}, {weight}), AutogradError, "already freed");
  }
}

}  // namespace
}  // namespace bytetape::test
