#include "bytetape/autograd/ops/matmul.h"

#include <gtest/gtest.h>

#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/backend.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/parallel.h"
#include "tests/support/expect.h"
#include "tests/support/planned.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

struct Tolerance {
  DType dtype;
  double rtol, atol;
};
// The inputs are of order 1 and the sums a few hundred terms long.
constexpr Tolerance tolerances[] = {
    {DType::f64, 1e-12, 1e-12}, {DType::f32, 1e-4, 1e-4}, {DType::bf16, 8e-3, 8e-3}, {DType::f16, 2e-3, 2e-3}};

/// x's values, row-major, seen as `shape` (broadcast).
std::vector<double> values_as(const Tensor& x, const Shape& shape) { return expand(x, shape).to_vector<double>(); }

/// a (..., m, k) @ b (..., k, n) by the definition, in double.
std::vector<double> naive(const Tensor& a, const Tensor& b, const Shape& y) {
  const int r = y.size();
  const std::int64_t m = y[r - 2], n = y[r - 1], k = a.size(-1);
  Shape a_shape = y, b_shape = y;
  a_shape[r - 1] = k;
  b_shape[r - 2] = k;
  const auto p = values_as(a, a_shape), q = values_as(b, b_shape);
  std::vector<double> out(static_cast<std::size_t>(numel(y)), 0.0);
  for (std::size_t at = 0; at < out.size(); ++at) {
    const auto i = static_cast<std::int64_t>(at), batch = i / (m * n), row = i / n % m, col = i % n;
    for (std::int64_t j = 0; j < k; ++j)
      out[at] += p[static_cast<std::size_t>((batch * m + row) * k + j)] *
                 q[static_cast<std::size_t>((batch * k + j) * n + col)];
  }
  return out;
}

void expect_product(const Tensor& a, const Tensor& b, const Shape& shape, const Tolerance& t) {
  const Tensor y = matmul(a, b);
  ASSERT_EQ(y.shape(), shape);
  EXPECT_EQ(y.dtype(), t.dtype);
  EXPECT_TRUE(all_close(y.to_vector<double>(), naive(a, b, shape), t.rtol, t.atol)) << describe(a) << describe(b);
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

TEST_P(MatmulTyped, TakesZeroSizes) {
  expect_product(random({0, 5}), random({5, 6}), {0, 6}, GetParam());
  expect_product(random({4, 5}), random({5, 0}), {4, 0}, GetParam());
  expect_product(random({4, 0}), random({0, 6}), {4, 6}, GetParam());
  expect_product(random({0, 4, 5}), random({0, 5, 6}), {0, 4, 6}, GetParam());
  expect_product(random({3, 0, 4, 5}), random({5, 6}), {3, 0, 4, 6}, GetParam());
}

TEST_P(MatmulTyped, LinearAddsTheBias) {
  const Tensor weight = random({7, 20}), bias = random({7});
  for (const Shape& lead : {Shape{}, Shape{1}, Shape{9}, Shape{2, 3}, Shape{0, 4}}) {
    Shape in = lead, out = lead;
    in.push_back(20);
    out.push_back(7);
    const Tensor x = random(in), y = linear(x, weight, bias);
    ASSERT_EQ(y.shape(), out);
    const Tensor rows = to(reshape(x, {numel(lead), 20}), DType::f64), w = to(weight, DType::f64);
    const Tensor expected = matmul(rows, transpose(w, 0, 1)) + to(bias, DType::f64);
    EXPECT_TRUE(all_close(y.to_vector<double>(), expected.to_vector<double>(), GetParam().rtol, GetParam().atol));
  }
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
  test::run_planned(backend({}).kernels->matmul, {a, b, bias, r.chosen.write()});
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

TEST(MatmulKernels, PortableBitsDoNotDependOnThreads) {
  const int threads = num_threads();
  const Tensor a = random_tensor({1, 300, 700}, DType::f32), b = random_tensor({1, 700, 600}, DType::f32);
  std::vector<std::vector<float>> results;
  for (int n : {1, 2, 5}) {
    set_num_threads(n);
    results.push_back(run_both(a.read(), b.read(), {}, {1, 300, 600}, {}).portable.to_vector<float>());
  }
  set_num_threads(threads);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// A device of the host's memory whose product counts.
int plans = 0, launches = 0;
Kernels counting() {
  Kernels k = cpu::kernels();
  k.matmul = {[](const MatmulArgs& args) {
                ++plans;
                return cpu::kernels().matmul.plan(args);
              },
              [](const MatmulArgs& args, const Plan& plan, Workspace ws) {
                ++launches;
                cpu::kernels().matmul.launch(args, plan, ws);
              }};
  return k;
}

TEST(Matmul, PlansOnceForAllBatches) {
  static const Kernels kernels = counting();
  const auto memory = [](int) -> memory::Allocator& { return memory::allocator(Device::cpu()); };
  register_backend(DeviceType::cuda, {&kernels, memory, memory});
  plans = launches = 0;
  const Tensor a = random_tensor({3, 1, 2, 4}), b = random_tensor({5, 4, 6});  // batches that do not walk as one
  const Tensor y = matmul(to(a, Device::cuda()), to(b, Device::cuda()));
  EXPECT_EQ(plans, 1);
  EXPECT_EQ(launches, 3);
  EXPECT_EQ(to(y, Device::cpu()).to_vector<double>(), matmul(a, b).to_vector<double>());
  register_backend(DeviceType::cuda, {});
}

TEST(Matmul, PromotesVectors) {
  const Tensor v = random_tensor({5}), w = random_tensor({5}), m = random_tensor({5, 3}),
               batch = random_tensor({2, 3, 5});
  EXPECT_EQ(matmul(v, w).shape(), Shape{});
  EXPECT_NEAR(matmul(v, w).item<double>(), sum(v * w).item<double>(), 1e-12);
  EXPECT_TRUE(all_close(matmul(v, m).to_vector<double>(), naive(unsqueeze(v, 0), m, {1, 3})));
  EXPECT_EQ(matmul(v, m).shape(), Shape{3});
  EXPECT_EQ(matmul(transpose(m, 0, 1), v).shape(), Shape{3});
  EXPECT_EQ(matmul(batch, v).shape(), (Shape{2, 3}));
  EXPECT_EQ(matmul(v, transpose(batch, 1, 2)).shape(), (Shape{2, 3}));
  EXPECT_TRUE(all_close(matmul(batch, v).to_vector<double>(), naive(batch, unsqueeze(v, 1), {2, 3, 1})));
}

TEST(Matmul, SaysWhatDoesNotFit) {
  const Tensor a = random_tensor({2, 3}), b = random_tensor({4, 5});
  EXPECT_THROWS_SAYING(matmul(a, b), ShapeError, "matmul: the columns of f64(2, 3) on cpu do not match the rows of");
  EXPECT_THROWS_SAYING(matmul(random_tensor({2, 4, 3}), random_tensor({3, 3, 5})), ShapeError, "do not broadcast");
  EXPECT_THROWS_SAYING(matmul(a, to(a, DType::f32)), DTypeError, "different dtypes");
  EXPECT_THROWS_SAYING(matmul(arange(3), arange(3)), DTypeError, "floating");
  EXPECT_THROWS_SAYING(matmul(random_tensor({}), a), ShapeError, "at least one dimension");
  EXPECT_THROWS_SAYING(matmul(a, to(b, Device::meta())), DeviceError, "different devices");
  EXPECT_THROWS_SAYING(linear(a, b), ShapeError, "linear: expected an input (..., in) and a weight (out, in)");
  EXPECT_THROWS_SAYING(linear(a, random_tensor({5, 3}), random_tensor({3})), ShapeError, "expected a bias (5,)");
}

TEST(Matmul, GradientsAreRight) {
  const auto product = [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); };
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {3, 4}},    {{3}, {3}},          {{3}, {3, 2}},
                                            {{2, 3}, {3}},       {{2, 3, 4}, {4, 2}}, {{2, 1, 3, 4}, {3, 4, 2}},
                                            {{3, 4}, {2, 4, 2}}, {{2, 0}, {0, 3}},    {{2, 1, 2, 3}, {1, 2, 3, 2}}};
  for (const auto& [a, b] : shapes) {
    const auto first = gradcheck(product, {random_leaf(a), random_leaf(b)});
    EXPECT_TRUE(first) << a << b << first.message;
    const auto second = gradgradcheck(product, {random_leaf(a), random_leaf(b)});
    EXPECT_TRUE(second) << a << b << second.message;
  }
}

TEST(Matmul, LinearGradientsAreRight) {
  const auto f = [](const std::vector<Tensor>& x) { return linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor()); };
  for (const Shape& x : {Shape{4}, Shape{3, 4}, Shape{2, 3, 4}, Shape{0, 4}}) {
    const std::vector<Tensor> inputs{random_leaf(x), random_leaf({5, 4}), random_leaf({5})};
    const auto first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
    EXPECT_TRUE(first) << x << first.message;
    EXPECT_TRUE(second) << x << second.message;
  }
  EXPECT_TRUE(gradcheck(f, {random_leaf({3, 4}), random_leaf({5, 4})}));
}

TEST(Matmul, MetaTakesTheSameBytes) {
  const auto bytes = [](Device device) {
    memory::Allocator& allocator = memory::allocator(device);
    const Tensor x = empty({64, 784}, DType::f32, device), w = empty({128, 784}, DType::f32, device);
    allocator.reset_peaks();
    const auto before = allocator.statistics().allocated.current;
    const Tensor y = linear(x, w, empty({128}, DType::f32, device));
    const Tensor z = matmul(transpose(x, 0, 1), y);
    return allocator.statistics().allocated.peak - before;
  };
  const auto real = bytes(Device::cpu());
  EXPECT_EQ(real, bytes(Device::meta()));
  EXPECT_GT(real, 64u * 128 * 4 + 784u * 128 * 4);
}

}  // namespace
}  // namespace bytetape
