#include "bytetape/autograd/ops/matmul.h"

#include <gtest/gtest.h>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/kernels/table.h"
#include "bytetape/core/parallel.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/planned.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tests/support/stand_in.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_tensor;

struct Tolerance {
  DType dtype;
  double rtol, atol;
};
// The inputs are of order 1 and the sums a few hundred terms long.
constexpr Tolerance tolerances[] = {
    {DType::f64, 1e-12, 1e-12}, {DType::f32, 1e-4, 1e-4}, {DType::bf16, 8e-3, 8e-3}, {DType::f16, 2e-3, 2e-3}};

void expect_product(const Tensor& a, const Tensor& b, const Shape& shape, const Tolerance& t) {
  const Tensor y = matmul(a, b);
  ASSERT_EQ(y.shape(), shape);
  EXPECT_EQ(y.dtype(), t.dtype);
  const auto array = [](const Tensor& x) { return test::Array(x.shape(), x.to_vector<double>()); };
  const test::Array expected = test::reference::matmul(array(a), array(b));
  EXPECT_TRUE(all_close(y.to_vector<double>(), expected.values, t.rtol, t.atol)) << describe(a) << describe(b);
}

class MatmulTyped : public ::testing::TestWithParam<Tolerance> {
 protected:
  Tensor random(const Shape& shape) { return random_tensor(shape, GetParam().dtype); }
};

TEST_P(MatmulTyped, MultipliesMatrices) {
  const Shape sizes[] = {{1, 1, 1}, {2, 3, 4}, {17, 33, 9}, {130, 300, 70}, {5, 1, 270}, {1, 513, 3}, {300, 20, 600}};
  for (const Shape& s : sizes) expect_product(random({s[0], s[1]}), random({s[1], s[2]}), {s[0], s[2]}, GetParam());
}

TEST_P(MatmulTyped, TakesTransposedOperands) {
  const Tensor a = random({40, 150}), b = random({40, 150});
  expect_product(transpose(a, 0, 1), b, {150, 150}, GetParam());
  expect_product(a, transpose(b, 0, 1), {40, 40}, GetParam());
  expect_product(transpose(a, 0, 1), transpose(random({30, 40}), 0, 1), {150, 30}, GetParam());
}

TEST_P(MatmulTyped, TakesAnyStrides) {
  const Tensor a = random({4, 30, 5, 6}), b = random({6, 7, 3});
  expect_product(narrow(random({20, 30}), 1, 3, 10), narrow(random({15, 8}), 0, 2, 10), {20, 8}, GetParam());
  expect_product(select(a, 3, 2), select(random({5, 9, 2}), 2, 1), {4, 30, 9}, GetParam());
  expect_product(permute(a, {3, 2, 0, 1}), permute(random({30, 5, 11}), {1, 0, 2}), {6, 5, 4, 11}, GetParam());
  expect_product(expand(random({1, 6}), {5, 6}), select(b, 2, 1), {5, 7}, GetParam());
  expect_product(random({5, 6}), expand(random({6, 1}), {6, 4}), {5, 4}, GetParam());
}

TEST_P(MatmulTyped, BroadcastsBatches) {
  expect_product(random({3, 4, 5}), random({3, 5, 6}), {3, 4, 6}, GetParam());
  expect_product(random({2, 3, 4, 5}), random({5, 6}), {2, 3, 4, 6}, GetParam());
  expect_product(random({4, 5}), random({2, 3, 5, 6}), {2, 3, 4, 6}, GetParam());
  expect_product(random({2, 1, 4, 5}), random({1, 3, 5, 6}), {2, 3, 4, 6}, GetParam());
  expect_product(random({7, 1, 2, 1, 4, 5}), random({1, 3, 2, 2, 5, 6}), {7, 3, 2, 2, 4, 6}, GetParam());
  expect_product(expand(random({1, 4, 5}), {3, 4, 5}), random({3, 5, 6}), {3, 4, 6}, GetParam());
}

/// Values and gradients.
std::vector<std::vector<double>> results(const Tensor& y, const std::vector<Tensor>& leaves) {
  std::vector<std::vector<double>> all{y.to_vector<double>()};
  for (const Tensor& g : grad({y}, leaves, {.seeds = {y.detach() + 1}})) all.push_back(g.to_vector<double>());
  return all;
}

TEST_P(MatmulTyped, LinearWithAnActivationHasTheBitsOfTheTwo) {
  const auto leaf = [](const Tensor& x) { return x.detach().set_requires_grad(); };
  for (const Shape& s : {Shape{5, 3, 4}, Shape{130, 300, 70}, Shape{1, 513, 3}, Shape{30, 0, 20}}) {
    const Tensor w = leaf(random({s[2], s[1]})), bias = leaf(random({s[2]})), x = random({s[0], s[1]});
    for (const Tensor& input : {leaf(x), leaf(transpose(random({s[1], s[0]}), 0, 1)), leaf(unsqueeze(x, 0))})
      for (const Tensor& b : {bias, Tensor()}) {
        std::vector<Tensor> leaves{input, w};
        if (b.defined()) leaves.push_back(b);
        const auto parts = [&] { return linear(input, w, b); };
        EXPECT_EQ(results(linear(input, w, b, Activation::relu), leaves), results(relu(parts()), leaves)) << s;
        EXPECT_EQ(results(linear(input, w, b, Activation::gelu_tanh), leaves),
                  results(gelu(parts(), Approximate::tanh), leaves))
            << s;
      }
  }
}

TEST(Linear, KeepsTheInputOfGeluOnlyForBackward) {
  const Tensor x = randn({64, 32}), w = randn({96, 32}).set_requires_grad();
  const std::size_t one = test::rounded(64 * 96 * 4), before = test::allocated();
  {
    const Tensor y = linear(x, w, {}, Activation::gelu_tanh);
    EXPECT_EQ(test::allocated() - before, 2 * one);
    sum(y).backward();
    EXPECT_EQ(test::allocated() - before, one + test::rounded(96 * 32 * 4));  // y, and the gradient of w
  }
  Tensor(w).set_grad({});
  const NoGrad no_grad;
  const Tensor y = linear(x, w, {}, Activation::gelu_tanh);
  EXPECT_EQ(test::allocated() - before, one);
}

TEST(Linear, ReluKeepsNaN) {
  const Tensor x = full({3, 4}, std::nan("")), w = randn({5, 4});
  for (const float v : linear(x, w, {}, Activation::relu).to_vector<float>()) EXPECT_TRUE(std::isnan(v));
}

INSTANTIATE_TEST_SUITE_P(Matmul, MatmulTyped, ::testing::ValuesIn(tolerances),
                         [](const auto& info) { return to_string(info.param.dtype); });

/// The table's kernel (oneDNN where it was built in) and the portable one, on the same views.
struct BothKernels {
  Tensor chosen, portable;
};
BothKernels run_both(ConstView a, ConstView b, ConstView bias, const Shape& y_shape, const Strides& y_strides) {
  BothKernels r{zeros(y_shape), zeros(y_shape)};
  if (!y_strides.empty()) {  // into a larger buffer
    r.chosen = r.portable = Tensor();
    std::int64_t extent = 1;
    for (int i = 0; i < 3; ++i) extent += (y_shape[i] - 1) * y_strides[i];
    r.chosen = zeros({extent}).alias(y_shape, y_strides, 0);
    r.portable = zeros({extent}).alias(y_shape, y_strides, 0);
  }
  test::run_planned(cpu::matmul_kernels().matmul, {a, b, bias, r.chosen.write()});
  test::run_planned(cpu::portable::matmul_kernels().matmul, {a, b, bias, r.portable.write()});
  return r;
}
void expect_both_alike(const Tensor& a, const Tensor& b, ConstView bias, const Strides& y_strides = {}) {
  const Shape y{a.size(0), a.size(1), b.size(2)};
  const BothKernels r = run_both(a.read(), b.read(), bias, y, y_strides);
  EXPECT_TRUE(all_close(r.chosen.to_vector<double>(), r.portable.to_vector<double>(), 1e-4, 1e-4));
}

TEST(MatmulKernels, AgreeOnEveryLayout) {
  const DType t = DType::f32;
  const Tensor a = random_tensor({3, 40, 50}, t), b = random_tensor({3, 50, 60}, t);
  expect_both_alike(a, b, {});
  expect_both_alike(permute(random_tensor({3, 50, 40}, t), {0, 2, 1}),
                    permute(random_tensor({3, 60, 50}, t), {0, 2, 1}), {});
  expect_both_alike(permute(random_tensor({40, 3, 50}, t), {1, 0, 2}), b, {});   // batch between the dims
  expect_both_alike(permute(random_tensor({40, 50, 3}, t), {2, 0, 1}), b, {});   // no unit step
  expect_both_alike(a, expand(random_tensor({1, 50, 60}, t), {3, 50, 60}), {});  // one b: folds
  expect_both_alike(expand(random_tensor({1, 40, 50}, t), {3, 40, 50}), b, {});  // one a
  expect_both_alike(a, b, {}, {60 * 40 * 2, 60 * 2, 2});                         // y with gaps
  expect_both_alike(a, b, {}, {60, 180, 1});                                     // y's batch between the dims
  expect_both_alike(random_tensor({1, 33, 1}, t), random_tensor({1, 1, 17}, t), {});
  expect_both_alike(random_tensor({5, 1, 33}, t), random_tensor({5, 33, 1}, t), {});
}

TEST(MatmulKernels, AgreeOnEveryBias) {
  const DType t = DType::f32;
  const Tensor a = random_tensor({2, 9, 20}, t), b = random_tensor({2, 20, 30}, t);
  for (const Shape& bias : {Shape{30}, Shape{9, 1}, Shape{2, 1, 1}, Shape{2, 9, 30}, Shape{1}}) {
    const Tensor c = random_tensor(bias, t);
    expect_both_alike(a, b, c.read().expand({2, 9, 30}));
    expect_both_alike(a, expand(select(b, 0, 0), {2, 20, 30}), c.read().expand({2, 9, 30}));
  }
  const Tensor strided = select(random_tensor({30, 2}, t), 1, 1);
  expect_both_alike(a, b, strided.read().expand({2, 9, 30}));
}

/// Results of the portable kernel with several numbers of threads, contiguous and with columns that are not.
std::vector<std::vector<float>> portable_results(const Tensor& a, const Tensor& b) {
  const std::int64_t batch = a.size(0), m = a.size(1), n = b.size(2);
  std::vector<std::vector<float>> results;
  for (const int count : {1, 2, 5, 7, 16})
    test::with_threads(count, [&] {
      for (const Tensor& y : {empty({batch, m, n}, a.dtype()), transpose(empty({batch, n, m}, a.dtype()), 1, 2)}) {
        test::run_planned(cpu::portable::matmul_kernels().matmul, {a.read(), b.read(), {}, y.write()});
        results.push_back(y.to_vector<float>());
      }
    });
  return results;
}

TEST(MatmulKernels, PortableBitsDoNotDependOnThreads) {
  using Sizes = std::array<std::int64_t, 4>;  // batch, m, k, n
  for (const DType t : {DType::f32, DType::f64, DType::bf16})
    for (const auto& [batch, m, k, n] : {Sizes{1, 300, 700, 600}, {3, 64, 300, 70}, {16, 40, 90, 33}, {1, 1, 900, 700}})
      for (const bool by_columns : {false, true}) {
        const auto make = [&](std::int64_t rows, std::int64_t cols) {
          return by_columns ? transpose(random_tensor({batch, cols, rows}, t), 1, 2)
                            : random_tensor({batch, rows, cols}, t);
        };
        const auto results = portable_results(make(m, k), make(k, n));
        for (const std::vector<float>& each : results)
          EXPECT_EQ(each, results[0]) << to_string(t) << ", batch " << batch << ", by columns " << by_columns;
      }
}

// A device whose product counts.
int plans = 0, launches = 0;
const MatmulKernels& counting() {
  static const MatmulKernels k{{[](const MatmulArgs& args) {
                                  ++plans;
                                  return cpu::matmul_kernels().matmul.plan(args);
                                },
                                [](const MatmulArgs& args, const Plan& plan, Workspace ws) {
                                  ++launches;
                                  cpu::matmul_kernels().matmul.launch(args, plan, ws);
                                }}};
  return k;
}

TEST(Matmul, PlansOnceForAllBatches) {
  static const KernelTable kernels = [] {
    KernelTable k = cpu::kernels();
    k.set(counting());
    return k;
  }();
  const test::StandIn stand_in({.kernels = &kernels});
  plans = launches = 0;
  const Tensor a = random_tensor({3, 1, 2, 4}), b = random_tensor({5, 4, 6});  // batches that do not walk as one
  const Tensor y = matmul(to(a, Device::cuda()), to(b, Device::cuda()));
  EXPECT_EQ(plans, 1);
  EXPECT_EQ(launches, 3);
  EXPECT_EQ(to(y, Device::cpu()).to_vector<double>(), matmul(a, b).to_vector<double>());
}

TEST(Matmul, OfAVectorAndABatchHasNoRows) {
  const Tensor v = random_tensor({3}), b = random_tensor({2, 3, 4});
  const Tensor y = matmul(v, b);
  EXPECT_EQ(y.shape(), (Shape{2, 4}));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(all_close(select(y, 0, i), matmul(v, select(b, 0, i))));
  EXPECT_EQ(matmul(random_tensor({1, 2, 3}), v).shape(), (Shape{1, 2}));
}

TEST(Matmul, OfABatchWithOneMatrixMakesOneGradientForIt) {
  const Tensor a = random_tensor({64, 4, 96}, DType::f32), b = test::random_leaf({96, 32}, DType::f32);
  const Tensor y = matmul(a, b), seed = ones_like(y);
  memory::reset_peaks(Device::cpu());
  const std::size_t before = test::allocated();
  y.backward(seed);
  EXPECT_LT(test::statistics().allocated.peak - before, 64 * b.nbytes()) << "not one for each of the 64";
}

// Gradients come to the result and, by way of the first gradient, to what the activation was given.
TEST(Linear, IsDifferentiatedTogetherWithItsGradient) {
  for (const Activation activation : {Activation::gelu_tanh, Activation::relu}) {
    const Tensor x = test::random_leaf({5, 3}), w = test::random_leaf({4, 3}), c = random_tensor({5, 4});
    const auto gradients = [&](bool fuses) {
      const Tensor z = fuses ? Tensor() : linear(x, w);
      const Tensor y = fuses                            ? linear(x, w, {}, activation)
                       : activation == Activation::relu ? relu(z)
                                                        : gelu(z, Approximate::tanh);
      const Tensor first = grad({sum(y * y)}, {x}, {.create_graph = true})[0];
      return grad({sum(y * c) + sum(first * first)}, {x, w});
    };
    const auto fused = gradients(true), composed = gradients(false);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(all_close(fused[i], composed[i]));
  }
}

// With one matrix for all, a batch is just more rows: where its rows lie so.
TEST(Matmul, OfABatchInAnyOrderWithOneMatrixForAll) {
  const Tensor one = random_tensor({1, 4, 5}), b = expand(one, {2, 4, 5});
  for (const Tensor& a : {random_tensor({2, 3, 4}), transpose(random_tensor({3, 2, 4}), 0, 1),
                          transpose(random_tensor({2, 4, 3}), 1, 2), expand(random_tensor({1, 3, 4}), {2, 3, 4})}) {
    const Tensor low = to(a, DType::f32), y = matmul(low, to(b, DType::f32)),
                 z = matmul(low, expand(to(one, DType::f32), {2, 4, 5}));
    for (int i = 0; i < 2; ++i) {
      const Tensor expected = matmul(select(a, 0, i), select(one, 0, 0));
      EXPECT_TRUE(all_close(to(select(y, 0, i), DType::f64), expected, 1e-5, 1e-5));
      EXPECT_TRUE(all_close(to(select(z, 0, i), DType::f64), expected, 1e-5, 1e-5));
    }
  }
}

// Batches that no one step leads through, and none.
TEST(Matmul, OfSeveralBatchDimsTakesEachProduct) {
  const Tensor a = random_tensor({2, 1, 3, 1, 2, 2}), b = random_tensor({1, 4, 1, 5, 2, 2}), y = matmul(a, b);
  ASSERT_EQ(y.shape(), (Shape{2, 4, 3, 5, 2, 2}));
  const Tensor flat = reshape(y, {120, 2, 2}), of_a = reshape(expand(a, {2, 4, 3, 5, 2, 2}), {120, 2, 2}),
               of_b = reshape(expand(b, {2, 4, 3, 5, 2, 2}), {120, 2, 2});
  for (int i = 0; i < 120; ++i)
    EXPECT_TRUE(all_close(select(flat, 0, i), matmul(select(of_a, 0, i), select(of_b, 0, i)))) << i;
  const Tensor none = test::random_leaf({0, 2, 3}), w = test::random_leaf({0, 3, 4}), z = matmul(none, w);
  EXPECT_EQ(z.shape(), (Shape{0, 2, 4}));
  sum(z).backward();
  EXPECT_EQ(w.grad().shape(), w.shape());
  EXPECT_THROWS_SAYING(matmul(ones({2, 2}, DType::i64), ones({2, 2}, DType::i64)), DTypeError,
                       "expected a floating dtype");
  EXPECT_THROWS_SAYING(linear(ones({2, 2}, DType::i64), ones({2, 2}, DType::i64)), DTypeError,
                       "expected a floating dtype");
}

TEST(Matmul, SaysWhatHasTooFewDims) {
  const Tensor scalar = random_tensor({}), v = random_tensor({1}), m = random_tensor({1, 1});
  for (const Tensor& other : {v, m}) {
    EXPECT_THROWS_SAYING(matmul(scalar, other), ShapeError, "expected at least one dimension each");
    EXPECT_THROWS_SAYING(matmul(other, scalar), ShapeError, "expected at least one dimension each");
  }
  EXPECT_THROWS_SAYING(linear(scalar, m), ShapeError, "expected an input (..., in) and a weight (out, in)");
  for (const Tensor& weight : {scalar, v, random_tensor({1, 1, 1})})
    EXPECT_THROWS_SAYING(linear(v, weight), ShapeError, "expected an input (..., in) and a weight (out, in)");
}

TEST(Linear, MakesNoGradientForABiasThatIsNotThere) {
  const auto made = [](bool has_bias) {
    int count = 0;
    for (const memory::Event& e : test::record_events(Device::cpu(), [&](Device) {
           const Tensor x = test::random_leaf({4, 8}, DType::f32), w = test::random_leaf({64, 8}, DType::f32);
           sum(linear(x, w, has_bias ? test::random_leaf({64}, DType::f32) : Tensor())).backward();
         }))
      count += e.kind == memory::EventKind::alloc && e.phase == memory::Phase::backward && e.requested == 4 * 64;
    return count;
  };
  EXPECT_GT(made(true), 0);
  EXPECT_EQ(made(false), 0);
}

/// Returns a matrix (rows, columns), row-major or transposed, with or without gaps between its rows or columns.
Tensor laid_out(std::int64_t rows, std::int64_t columns, bool is_transposed, bool has_gaps) {
  if (is_transposed) return transpose(laid_out(columns, rows, false, has_gaps), 0, 1);
  return narrow(random_tensor({rows, columns + 3 * has_gaps}, DType::f32), 1, has_gaps, columns);
}

// oneDNN's kernels differ by layout, sizes and number of threads.
TEST(Matmul, HasTheSameBitsOnAnyNumberOfThreads) {
  const auto check = [&](const Tensor& a, const Tensor& b) {
    const auto product = [&](int threads) {
      return test::with_threads(threads, [&] { return matmul(a, b).to_vector<float>(); });
    };
    const std::vector<float> one = product(1);
    for (const int threads : {2, 3, 7, 8, 16})
      EXPECT_EQ(product(threads), one) << describe(a) << a.strides() << describe(b) << b.strides();
    EXPECT_TRUE(all_close(to(matmul(a, b), DType::f64), matmul(to(a, DType::f64), to(b, DType::f64)), 0, 1e-3));
  };
  for (const auto& [m, k, n] : {std::tuple{1, 512, 40},
                                {33, 384, 65},
                                {64, 2048, 64},
                                {2, 2048, 3},
                                {1, 5000, 1},
                                {65, 4097, 10},
                                {16, 20000, 16},
                                {1, 20000, 40}})
    for (int layout = 0; layout < 16; ++layout) {
      const auto is = [layout](int bit) { return (layout >> bit & 1) == 1; };
      check(laid_out(m, k, is(0), is(1)), laid_out(k, n, is(2), is(3)));
    }
  for (const std::int64_t k : {300, 2048}) {  // batches
    const Tensor a = random_tensor({3, 5, k}, DType::f32), b = random_tensor({3, k, 12}, DType::f32);
    for (const Tensor& left :
         {a, transpose(random_tensor({3, k, 5}, DType::f32), 1, 2), expand(narrow(a, 0, 0, 1), {3, 5, k})})
      for (const Tensor& right : {b, transpose(random_tensor({3, 12, k}, DType::f32), 1, 2)}) check(left, right);
  }
}

TEST(Linear, OfManyRowsHasTheSameGradientsOnAnyNumberOfThreads) {
  for (const auto& [rows, in, out] : {std::tuple{4096, 40, 24}, {25000, 3, 5}}) {
    const Tensor x = test::random_leaf({rows, in}, DType::f32), w = test::random_leaf({out, in}, DType::f32),
                 b = test::random_leaf({out}, DType::f32), seed = test::random_tensor({rows, out}, DType::f32);
    const auto gradients = [&](int threads) {
      return test::with_threads(threads, [&] {
        const Tensor y = linear(x, w, b, Activation::gelu_tanh);
        std::vector<std::vector<float>> all;
        for (const Tensor& g : grad({y}, {x, w, b}, {.seeds = {seed}})) all.push_back(g.to_vector<float>());
        return all;
      });
    };
    for (const int threads : {2, 3, 8, 16}) EXPECT_EQ(gradients(threads), gradients(1));
  }
}

}  // namespace
}  // namespace bytetape
