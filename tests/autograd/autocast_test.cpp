#include "bytetape/autograd/autocast.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "bytetape/bytetape.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

constexpr DType low_dtypes[] = {DType::bf16, DType::f16};
Tensor of(DType dtype, const Shape& shape) { return random_tensor(shape, dtype); }

// ---- which op gives which dtype: PyTorch's lists for CUDA

TEST(Autocast, LowPrecisionOps) {
  for (const DType low : low_dtypes)
    for (const DType given : {DType::f32, DType::bf16, DType::f16}) {
      const Autocast autocast(low);
      const Tensor x = of(given, {2, 3}), w = of(DType::f32, {4, 3}), b = of(DType::f32, {4});
      EXPECT_EQ(linear(x, w, b).dtype(), low);
      EXPECT_EQ(linear(x, w, b, Activation::relu).dtype(), low);
      EXPECT_EQ(linear(x, w, b, Activation::gelu_tanh).dtype(), low);
      EXPECT_EQ(matmul(x, transpose(w, 0, 1)).dtype(), low);
      EXPECT_EQ(matmul(w, of(given, {3})).dtype(), low);
      EXPECT_EQ(conv2d(of(given, {1, 3, 4, 4}), of(DType::f32, {2, 3, 2, 2}), of(DType::f32, {2})).dtype(), low);
      EXPECT_EQ(conv_transpose2d(of(given, {1, 2, 4, 4}), of(DType::f32, {2, 3, 2, 2}), of(DType::f32, {3})).dtype(),
                low);
    }
}

TEST(Autocast, OpsThatNeedF32) {
  const std::pair<const char*, Tensor (*)(const Tensor&)> ops[] = {
      {"exp", exp},
      {"log", log},
      {"log1p", log1p},
      {"expm1", expm1},
      {"rsqrt", rsqrt},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"pow", [](const Tensor& x) { return pow(x, 2); }},
      {"pow of a number", [](const Tensor& x) { return pow(2, x); }},
      {"1 / x", [](const Tensor& x) { return 1 / x; }},
      {"sum", [](const Tensor& x) { return sum(x); }},
      {"sum of rows", [](const Tensor& x) { return sum(x, 1, true); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 1); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 1); }},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, {3}); }},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x, {3}); }},
      {"add_layer_norm", [](const Tensor& x) { return add_layer_norm(x, x, {3}).y; }},
      {"the sum of add_layer_norm", [](const Tensor& x) { return add_layer_norm(x, x, {3}).sum; }},
      {"group_norm", [](const Tensor& x) { return group_norm(x, 1); }},
      {"norm", [](const Tensor& x) { return norm(x); }},
      {"prod", [](const Tensor& x) { return prod(x); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, 1); }},
      {"cross_entropy", [](const Tensor& x) { return cross_entropy(x, zeros({2}, DType::i64)); }},
      {"cross_entropy of probabilities", [](const Tensor& x) { return cross_entropy(x, x.detach()); }},
      {"nll_loss", [](const Tensor& x) { return nll_loss(x, zeros({2}, DType::i64)); }},
      {"mse_loss", [](const Tensor& x) { return mse_loss(x, x.detach() * 2); }},
      {"l1_loss", [](const Tensor& x) { return l1_loss(x, x.detach() * 2); }},
      {"huber_loss", [](const Tensor& x) { return huber_loss(x, x.detach() * 2); }},
      {"binary_cross_entropy_with_logits",
       [](const Tensor& x) { return binary_cross_entropy_with_logits(x, x.detach()); }},
  };
  for (const auto& [name, f] : ops)
    for (const DType low : low_dtypes) {
      SCOPED_TRACE(name);
      Tensor x = (abs(of(low, {2, 3})) + 1).set_requires_grad();
      EXPECT_EQ(f(x).dtype(), low);  // outside
      const Autocast autocast(DType::bf16);
      const Tensor y = f(x);
      EXPECT_EQ(y.dtype(), DType::f32);
      EXPECT_EQ(y.to_vector<float>(), f(to(x, DType::f32)).to_vector<float>());
      EXPECT_EQ(grad({sum(y)}, {x})[0].dtype(), low);
      EXPECT_EQ(f(of(DType::f64, {2, 3})).dtype(), DType::f64);
    }
}

TEST(Autocast, OpsThatKeepTheirInputsDtype) {
  const Autocast autocast(DType::bf16);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = of(dtype, {2, 3}), image = of(dtype, {2, 3, 4, 4});
    EXPECT_EQ(leaky_relu(x).dtype(), dtype);
    EXPECT_EQ(bytetape::std(x).dtype(), dtype);
    EXPECT_EQ(pad(x, {1, 1}).dtype(), dtype);
    EXPECT_EQ(index_select(x, 1, zeros(5, DType::i64)).dtype(), dtype);
    EXPECT_EQ(chunk(x, 2)[0].dtype(), dtype);
    for (const auto f : {relu, gelu, silu, tanh, sigmoid, sqrt, erf, neg, abs}) EXPECT_EQ(f(x).dtype(), dtype);
    EXPECT_EQ(mean(x).dtype(), dtype);
    EXPECT_EQ(max(x).dtype(), dtype);
    EXPECT_EQ((x * 2).dtype(), dtype);
    EXPECT_EQ((x / 2).dtype(), dtype);
    EXPECT_EQ(max_pool2d(image, {.kernel = 2}).dtype(), dtype);
    EXPECT_EQ(avg_pool2d(image, {.kernel = 2}).dtype(), dtype);
    EXPECT_EQ(adaptive_avg_pool2d(image, 1).dtype(), dtype);
    EXPECT_EQ(interpolate(image, {.scale_factor = 2}).dtype(), dtype);
    const DType wide = accumulated(dtype);
    EXPECT_EQ(batch_norm(image, ones({3}, wide), zeros({3}, wide), {}, {}, true).dtype(), dtype);
    Tensor y = clone(x);
    EXPECT_EQ(exp_(y).dtype(), dtype);
  }
  EXPECT_EQ(sum(zeros({3}, DType::i64)).dtype(), DType::i64);
}

TEST(Autocast, OpsOfSeveralTensorsTakeTheWidest) {
  const Tensor low = of(DType::bf16, {2, 3}), half = of(DType::f16, {2, 3}), wide = of(DType::f32, {2, 3}),
               whole = of(DType::f64, {2, 3}), yes = low == low;
  const Autocast autocast(DType::bf16);
  EXPECT_EQ((low + wide).dtype(), DType::f32);
  EXPECT_EQ((wide * low).dtype(), DType::f32);
  EXPECT_EQ((low - half).dtype(), DType::f32);
  EXPECT_EQ((low / whole).dtype(), DType::f64);
  EXPECT_EQ(pow(low, wide).dtype(), DType::f32);
  EXPECT_EQ(maximum(low, wide).dtype(), DType::f32);
  EXPECT_EQ(where(yes, low, wide).dtype(), DType::f32);
  EXPECT_EQ((low < wide).dtype(), DType::boolean);
  EXPECT_EQ((low < wide).to_vector<bool>(), (to(low, DType::f32) < wide).to_vector<bool>());
  EXPECT_EQ(cat({low, wide, half}).dtype(), DType::f32);
  EXPECT_EQ(cat({low, half}).dtype(), DType::f32);
  EXPECT_EQ(cat({half, low, half}).dtype(), DType::f32);
  EXPECT_EQ(stack({low, whole, half}).dtype(), DType::f64);
  EXPECT_EQ(stack({low, low}).dtype(), DType::bf16);
  EXPECT_EQ((low + wide).to_vector<float>(), (to(low, DType::f32) + wide).to_vector<float>());
}

TEST(Autocast, IntegersAreNeverPromoted) {
  const Tensor whole = arange(3), wide = of(DType::f32, {3}), low = of(DType::bf16, {3});
  const Autocast autocast(DType::bf16);
  EXPECT_THROW(whole + wide, DTypeError);
  EXPECT_THROW(wide + whole, DTypeError);
  for (const auto& tensors : {std::vector{whole, low, wide}, {low, whole, wide}, {low, wide, whole}})
    EXPECT_THROW(cat(tensors, 0), DTypeError);
  EXPECT_EQ(cat({whole, whole}, 0).dtype(), DType::i64);
}

TEST(Autocast, NormsWithAResidualTakeTheWidest) {
  const Tensor weight = random_leaf({3}, DType::f32), bias = random_leaf({3}, DType::f32);
  const auto batch = [&](const Tensor& x, const Tensor& residual) {
    return batch_norm(x, weight, bias, {}, {}, true, 0.1, 1e-5, Activation::relu, residual);
  };
  const auto layer = [&](const Tensor& x, const Tensor& residual) {
    const AddLayerNorm made = add_layer_norm(x, residual, {3}, weight, bias);
    EXPECT_EQ(made.sum.dtype(), DType::f32);
    return made.y + made.sum;
  };
  const auto expect_widest = [&](const auto& f, const Shape& shape, const std::vector<bool>& wide_x) {
    for (const bool is_wide_x : wide_x) {
      const Tensor x = random_leaf(shape, is_wide_x ? DType::f32 : DType::bf16),
                   residual = random_leaf(shape, is_wide_x ? DType::bf16 : DType::f32);
      EXPECT_THROWS_SAYING(f(x, residual), DTypeError, "inputs of different dtypes");
      const auto wide = [](const Tensor& t) { return to(t.detach(), DType::f32).set_requires_grad(); };
      const Tensor wide_x = wide(x), wide_residual = wide(residual), expected = f(wide_x, wide_residual);
      const Autocast autocast(DType::bf16);
      const Tensor y = f(x, residual);
      EXPECT_EQ(y.dtype(), DType::f32);
      EXPECT_EQ(y.to_vector<float>(), expected.to_vector<float>());
      const auto got = grad({sum(y * y)}, {x, residual}),
                 wanted = grad({sum(expected * expected)}, {wide_x, wide_residual});
      EXPECT_EQ(got[0].to_vector<float>(), to(wanted[0], x.dtype()).to_vector<float>());
      EXPECT_EQ(got[1].to_vector<float>(), to(wanted[1], residual.dtype()).to_vector<float>());
    }
  };
  expect_widest(batch, {4, 3, 2, 2}, {false, true});
  expect_widest(layer, {4, 3}, {true});
}

TEST(Autocast, NormsTakeWeightsOf16Bits) {
  const auto layer = [](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, {4}, w, b); };
  const auto added = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return add_layer_norm(x, x, {4}, w, b).y;
  };
  const auto rms = [](const Tensor& x, const Tensor& w, const Tensor&) { return rms_norm(x, {4}, w); };
  const auto group = [](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, 2, w, b); };
  const auto expect_wide = [](const auto& f, std::size_t inputs) {
    for (const DType low : low_dtypes)
      for (const DType dtype : {low, DType::f32}) {
        const std::vector<Tensor> given{random_leaf({3, 4}, dtype), random_leaf({4}, low), random_leaf({4}, low)};
        std::vector<Tensor> wide;
        for (const Tensor& t : given) wide.push_back(to(t.detach(), DType::f32).set_requires_grad());
        const Tensor expected = f(wide[0], wide[1], wide[2]);
        const Autocast autocast(low);
        const Tensor y = f(given[0], given[1], given[2]);
        EXPECT_EQ(y.dtype(), DType::f32);
        EXPECT_EQ(y.to_vector<float>(), expected.to_vector<float>());
        const auto leaves = [&](const std::vector<Tensor>& all) {
          return std::vector(all.begin(), all.begin() + inputs);
        };
        const std::vector<Tensor> got = grad({sum(y * y)}, leaves(given)),
                                  wanted = grad({sum(expected * expected)}, leaves(wide));
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(got[i].dtype(), given[i].dtype());
          EXPECT_EQ(got[i].to_vector<float>(), to(wanted[i], given[i].dtype()).to_vector<float>()) << i;
        }
      }
  };
  expect_wide(layer, 3);
  expect_wide(added, 3);
  expect_wide(rms, 2);
  expect_wide(group, 3);
  const auto batch = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return to(batch_norm(x, w, b, {}, {}, true), DType::f32);
  };
  const Tensor x = random_leaf({3, 4}, DType::f32), w = random_leaf({4}, DType::bf16),
               b = random_leaf({4}, DType::bf16);
  EXPECT_THROWS_SAYING(batch(x, w, b), DTypeError, "weight must have the dtype of x");
  const Tensor expected = batch(x, to(w, DType::f32), to(b, DType::f32));
  const Autocast autocast(DType::bf16);
  EXPECT_EQ(batch(x, w, b).to_vector<float>(), expected.to_vector<float>());
  EXPECT_EQ(grad({sum(batch(x, w, b))}, {w})[0].dtype(), DType::bf16);
}

TEST(Autocast, LayerNormKeepsABranchIn16Bits) {
  for (const DType low : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(detail::concat(low));
    const Tensor x = random_leaf({5, 70}, low), residual = random_leaf({5, 70}, DType::f32),
                 weight = random_leaf({70}, DType::f32), bias = random_leaf({70}, DType::f32),
                 wide_x = to(x.detach(), DType::f32).set_requires_grad(), gy = random_tensor({5, 70}, low),
                 gsum = random_tensor({5, 70}, DType::f32);
    EXPECT_THROWS_SAYING(add_layer_norm(x, residual, 70), DTypeError, "inputs of different dtypes");
    const AddLayerNorm wide = add_layer_norm(wide_x, residual, 70, weight, bias);
    const Autocast autocast(low);
    const AddLayerNorm made = add_layer_norm(x, residual, 70, weight, bias);
    EXPECT_EQ(made.y.dtype(), low);
    EXPECT_EQ(made.y.to_vector<float>(), to(wide.y, low).to_vector<float>());
    EXPECT_EQ(made.sum.dtype(), DType::f32);
    EXPECT_EQ(made.sum.to_vector<float>(), wide.sum.to_vector<float>());
    const Tensor wide_gy = to(gy, DType::f32);
    const auto expect_equal = [&](const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                                  const std::vector<Tensor>& wide_outputs, const std::vector<Tensor>& wide_seeds,
                                  const std::vector<Tensor>& more) {
      std::vector<Tensor> inputs{x, residual}, wide_inputs{wide_x, residual};
      for (const Tensor& m : more) inputs.push_back(m), wide_inputs.push_back(m);
      const auto got = grad(outputs, inputs, {.seeds = seeds, .retain_graph = true}),
                 wanted = grad(wide_outputs, wide_inputs, {.seeds = wide_seeds, .retain_graph = true});
      EXPECT_EQ(got[0].dtype(), low);
      EXPECT_EQ(got[0].to_vector<float>(), to(wanted[0], low).to_vector<float>());
      for (std::size_t i = 1; i < inputs.size(); ++i)
        EXPECT_EQ(got[i].to_vector<float>(), wanted[i].to_vector<float>()) << i;
    };
    expect_equal({made.y, made.sum}, {gy, gsum}, {wide.y, wide.sum}, {wide_gy, gsum}, {weight, bias});
    expect_equal({made.y}, {gy}, {wide.y}, {wide_gy}, {weight, bias});
    expect_equal({made.sum}, {gsum}, {wide.sum}, {gsum}, {});
    EXPECT_EQ(grad({made.y}, {residual}, {.seeds = {gy}, .retain_graph = true})[0].to_vector<float>(),
              grad({wide.y}, {residual}, {.seeds = {wide_gy}, .retain_graph = true})[0].to_vector<float>());
    const auto composed = grad({made.y, made.sum}, {x, residual}, {.seeds = {gy, gsum}, .create_graph = true}),
               fused = grad({wide.y, wide.sum}, {wide_x, residual}, {.seeds = {wide_gy, gsum}});
    EXPECT_TRUE(test::all_close(composed[0].to_vector<double>(), fused[0].to_vector<double>(), 0.02, 0.02));
    EXPECT_TRUE(test::all_close(composed[1].to_vector<double>(), fused[1].to_vector<double>(), 1e-4, 1e-5));
  }
}

TEST(Autocast, GradientsOfPromotedTensorsKeepTheirDtype) {
  const Tensor low = random_leaf({2, 3}, DType::bf16), wide = random_leaf({3}, DType::f32);
  const Autocast autocast(DType::bf16);
  sum(low * wide).backward();
  sum(cat({low, unsqueeze(wide, 0)})).backward();
  EXPECT_EQ(low.grad().dtype(), DType::bf16);
  EXPECT_EQ(wide.grad().dtype(), DType::f32);
}

// ---- scopes

TEST(Autocast, NestsAndSwitchesOff) {
  const Tensor x = of(DType::f32, {2, 3}), w = of(DType::f32, {4, 3});
  EXPECT_FALSE(autocast_enabled());
  {
    const Autocast outer(DType::bf16);
    EXPECT_EQ(autocast_dtype(), DType::bf16);
    {
      const Autocast inner(DType::f16);
      EXPECT_EQ(linear(x, w).dtype(), DType::f16);
      const Autocast off(DType::f32);
      EXPECT_FALSE(autocast_enabled());
      EXPECT_EQ(linear(x, w).dtype(), DType::f32);
    }
    EXPECT_EQ(linear(x, w).dtype(), DType::bf16);
  }
  EXPECT_EQ(linear(x, w).dtype(), DType::f32);
}

TEST(Autocast, IsOfItsThread) {
  const Autocast autocast(DType::bf16);
  bool elsewhere = true;
  std::thread([&] { elsewhere = autocast_enabled(); }).join();
  EXPECT_FALSE(elsewhere);
}

TEST(Autocast, SaysWhatItTakes) {
  EXPECT_THROWS_SAYING(const Autocast autocast(DType::f64), DTypeError, "bf16 or f16");
  EXPECT_THROWS_SAYING(const Autocast autocast(DType::i64), DTypeError, "got i64");
  EXPECT_FALSE(autocast_enabled());
  const Tensor low = of(DType::bf16, {2, 3}), wide = of(DType::f32, {2, 3});
  EXPECT_THROW(low + wide, DTypeError);  // nothing is promoted outside
  const Autocast autocast(DType::bf16);
  Tensor y = clone(low);
  EXPECT_THROW(add_(y, wide), DTypeError);  // nor in place
  EXPECT_THROWS_SAYING(linear(of(DType::f64, {2, 3}), wide), DTypeError, "linear");
  EXPECT_THROWS_SAYING(linear(wide, of(DType::f32, {4, 5})), ShapeError, "the weight takes 5");
  EXPECT_THROW(conv2d(Tensor(), wide), ValueError);
  EXPECT_THROW(matmul(wide, zeros({3}, DType::i64)), DTypeError);
}

// ---- gradients

/// Gradients of a step in low precision against those in f32, from the same parameters.
template <class F>
void expect_gradients_like_f32(const std::vector<Tensor>& leaves, const F& f) {
  std::vector<Tensor> expected = grad({f()}, leaves);
  for (const DType low : low_dtypes) {
    const Autocast autocast(low);
    const std::vector<Tensor> got = grad({f()}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), DType::f32);
      double largest = 0;
      for (const double v : expected[i].to_vector<double>()) largest = std::max(largest, std::abs(v));
      EXPECT_TRUE(all_close(got[i], expected[i], 0.05, 0.02 * largest)) << "gradient " << i;
    }
  }
}

TEST(Autocast, GradientsOfParametersAreF32) {
  const auto leaf = [](const Shape& shape) { return random_leaf(shape, DType::f32); };
  for (const bool with_bias : {true, false}) {
    const Tensor x = leaf({5, 7}), w = leaf({3, 7}), b = with_bias ? leaf({3}) : Tensor(), t = of(DType::f32, {5, 3});
    std::vector<Tensor> leaves{x, w};
    if (with_bias) leaves.push_back(b);
    expect_gradients_like_f32(leaves, [&] { return sum(linear(x, w, b) * t); });
    const Tensor image = leaf({2, 3, 5, 5}), k = leaf({4, 3, 3, 3}), kb = with_bias ? leaf({4}) : Tensor(),
                 u = of(DType::f32, {2, 4, 3, 3});
    leaves = {image, k};
    if (with_bias) leaves.push_back(kb);
    expect_gradients_like_f32(leaves, [&] { return sum(conv2d(image, k, kb) * u); });
    expect_gradients_like_f32({k}, [&] { return sum(conv2d(image.detach(), k, kb) * u); });
    const Tensor small = leaf({2, 4, 3, 3}), tb = with_bias ? leaf({3}) : Tensor(), v = of(DType::f32, {2, 3, 5, 5});
    leaves = {small, k};
    if (with_bias) leaves.push_back(tb);
    expect_gradients_like_f32(leaves, [&] { return sum(conv_transpose2d(small, k, tb) * v); });
    if (!with_bias) continue;
    expect_gradients_like_f32({kb, b}, [&] {
      return sum(conv2d(image.detach(), k.detach(), kb) * u) + sum(linear(x.detach(), w.detach(), b) * t);
    });
  }
  const Tensor a = leaf({2, 4, 5}), b = leaf({5, 3}), c = leaf({2, 5, 3});
  expect_gradients_like_f32({a, b}, [&] { return sum(matmul(a, b) * matmul(a, c).detach()); });
  expect_gradients_like_f32({a, c}, [&] { return sum(matmul(a, c) * 0.5); });
}

// The kernel adds up in f32 and nothing rounds the sum.
TEST(Autocast, GradientsOfParametersAreNotRounded) {
  const Tensor x = of(DType::bf16, {300, 2}), gy = of(DType::bf16, {300, 3}), w = random_leaf({3, 2}, DType::f32),
               b = random_leaf({3}, DType::f32);
  for (const bool with_bias : {true, false}) {
    const Autocast autocast(DType::bf16);
    linear(x, w, with_bias ? b : Tensor()).backward(gy);
    const auto wide = [](const Tensor& v) { return to(v, DType::f64); };
    EXPECT_TRUE(all_close(wide(w.grad()), matmul(transpose(wide(gy), 0, 1), wide(x)), 1e-5, 1e-4));
    if (with_bias) { EXPECT_TRUE(all_close(wide(b.grad()), sum(wide(gy), 0), 1e-5, 1e-4)); }
    Tensor(w).set_grad({});
  }
}

TEST(Autocast, CanBeDifferentiatedTwice) {
  const Tensor x = random_leaf({4, 3}, DType::f32), w = random_leaf({2, 3}, DType::f32),
               k = random_leaf({2, 1, 2, 2}, DType::f32), image = random_leaf({1, 1, 4, 4}, DType::f32);
  const auto penalty = [](const Tensor& y, const Tensor& in, const Tensor& weight) {
    GradOptions recorded;
    recorded.create_graph = true;
    const Tensor g = grad({sum(y * y)}, {in}, recorded)[0];
    return grad({sum(g * g)}, {weight})[0];
  };
  for (const bool is_image : {false, true})
    for (const bool of_weight : {false, true}) {  // the penalty is on the gradient of the weight, or of the input
      const auto f = [&] {
        const Tensor y = is_image ? conv2d(image, k) : linear(x, w);
        return is_image ? penalty(y, of_weight ? k : image, k) : penalty(y, of_weight ? w : x, w);
      };
      const Tensor expected = f();
      const Autocast autocast(DType::bf16);
      const Tensor got = f();
      EXPECT_EQ(got.dtype(), DType::f32);
      double largest = 0;
      for (const double v : expected.to_vector<double>()) largest = std::max(largest, std::abs(v));
      EXPECT_TRUE(all_close(got, expected, 0.05, 0.05 * largest));
    }
}

TEST(Autocast, BackwardIsTheSameInsideAndOutside) {
  const Tensor x = of(DType::f32, {4, 3}), w = random_leaf({2, 3}, DType::f32);
  const auto gradient = [&](bool inside) {
    std::optional<Autocast> autocast(DType::bf16);
    const Tensor loss = sum(exp(tanh(linear(x, w))));
    if (!inside) autocast.reset();
    return grad({loss}, {w})[0].to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(AutocastThreads, ShareAModel) {
  nn::Linear l(64, 64);
  const Tensor x = of(DType::f32, {8, 64});
  const auto run = [&] {
    const Autocast autocast(DType::bf16);
    const NoGrad no_grad;
    return linear(x, l.weight, l.bias).to_vector<float>();
  };
  const auto expected = run();
  for (int round = 0; round < 20; ++round) {
    {
      const NoGrad no_grad;
      mul_(l.weight, 1);  // the copies are made again, by whoever comes first
    }
    std::vector<std::vector<float>> results(4);
    std::vector<std::thread> threads;
    for (auto& r : results) threads.emplace_back([&] { r = run(); });
    for (std::thread& t : threads) t.join();
    for (const auto& r : results) EXPECT_EQ(r, expected);
  }
}

// ---- training

using Model = nn::Sequential (*)();
nn::Sequential mlp() { return nn::Sequential(nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 4)); }
nn::Sequential cnn() {
  return nn::Sequential(nn::Conv2d(2, 8, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(8), nn::ReLU(),
                        nn::Conv2d(8, 8, 3), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(32, 4));
}

std::vector<double> losses(DType dtype, Model model, const Tensor& x, const Tensor& y) {
  manual_seed(3);
  nn::Sequential net = model();
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::vector<double> all;
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast autocast(dtype);
      loss = cross_entropy(net(x), y);
    }
    loss.backward();
    optimizer.step();
    all.push_back(loss.item<double>());
  }
  return all;
}

TEST(Autocast, TrainsAsInF32) {
  const Tensor y = arange(0, 16, 1, DType::i64), classes = y - 4 * to(to(y, DType::f32) / 4, DType::i64);
  for (const auto& [model, x] :
       {std::pair<Model, Tensor>{mlp, of(DType::f32, {16, 8})}, {cnn, of(DType::f32, {16, 2, 6, 6})}}) {
    const auto expected = losses(DType::f32, model, x, classes), low = losses(DType::bf16, model, x, classes);
    for (std::size_t i = 0; i < low.size(); ++i) EXPECT_NEAR(low[i], expected[i], 0.05 + 0.05 * expected[i]) << i;
    EXPECT_LT(low.back(), 0.5 * low.front());
  }
}

TEST(Autocast, IsPredictedToTheByte) {
  const auto program = [](Device device) {
    const DefaultDevice here(device);
    nn::Sequential net = cnn();
    optim::Adam optimizer(net.parameters(), {});
    const Autocast autocast(DType::bf16);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      cross_entropy(net(randn({4, 2, 6, 6})), zeros({4}, DType::i64)).backward();
      optimizer.step();
    }
  };
  EXPECT_EQ(
      test::first_difference(test::record_events(Device::cpu(), program), test::record_events(Device::meta(), program)),
      "");
}

}  // namespace
}  // namespace bytetape
