#include "bytetape/core/kernels/reduce.h"
#include "bytetape/core/kernels/copy.h"

#include <cstring>
#include <functional>
#include <limits>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/parallel.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_tensor;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Fold = std::function<double(double, double)>;
const Fold add = [](double a, double b) { return a + b; };
const Fold multiply = [](double a, double b) { return a * b; };
const Fold larger = [](double a, double b) { return a != a || a > b ? a : b; };
const Fold smaller = [](double a, double b) { return a != a || a < b ? a : b; };

Shape kept_shape(const Shape& shape, unsigned mask) {
  Shape kept = shape;
  for (int d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) kept[d] = 1;
  return kept;
}

// Element by element over the dims in `mask`, in row-major order.
std::vector<double> fold(const Tensor& x, unsigned mask, double start, const Fold& f) {
  const Shape kept = kept_shape(x.shape(), mask);
  const Strides steps = contiguous_strides(kept);
  std::vector<double> out(static_cast<std::size_t>(numel(kept)), start);
  const std::vector<double> values = x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t at = 0, rest = static_cast<std::int64_t>(i);
    for (int d = x.rank() - 1; d >= 0; rest /= x.shape()[d--])
      if (!(mask >> d & 1)) at += rest % x.shape()[d] * steps[d];
    out[static_cast<std::size_t>(at)] = f(out[static_cast<std::size_t>(at)], values[i]);
  }
  return out;
}

template <auto Kernel>
Tensor reduce(const Tensor& x, unsigned mask, DType dtype) {
  Tensor y = empty(kept_shape(x.shape(), mask), dtype);
  if constexpr (requires { (ReduceKernels().*Kernel).plan; })
    run_planned<Kernel>(x.device(), {x.read(), y.write()});
  else
    run<Kernel>(x.device(), x.read(), y.write());
  return y;
}

// The same tensor with its dims stored in another order, and with gaps.
std::vector<Tensor> layouts(DType dtype) {
  const Tensor base = random_tensor({6, 5, 4, 7}, dtype);
  return {base, base.alias({7, 6, 4, 5}, {1, 140, 7, 28}, 0),  // permuted
          base.alias({3, 5, 2, 3}, {280, 28, 7, 2}, 8),        // every other element
          base.alias({4, 5, 3, 7}, {0, 28, 0, 1}, 140),        // repeated
          base.alias({1, 30, 1, 28}, {999, 28, 5, 1}, 0)};     // sizes of 1
}

TEST(ReduceKernels, AgreeWithLoopsForAnyDimsAndLayout) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32, DType::u8}) {
    const bool is_float = is_floating(dtype);
    const double tolerance = dtype == DType::bf16 ? 8e-3 : dtype == DType::f32 ? 1e-5 : 1e-13;
    for (const Tensor& x : layouts(dtype))
      for (unsigned mask = 0; mask < 16; ++mask) {
        SCOPED_TRACE(detail::concat(describe(x), " strides ", x.strides(), " mask ", mask));
        const Tensor total = reduce<&ReduceKernels::sum>(x, mask, is_float ? dtype : DType::i64);
        EXPECT_TRUE(all_close(total.to_vector<double>(), fold(x, mask, 0, add), tolerance, tolerance));
        EXPECT_TRUE(
            all_close(reduce<&ReduceKernels::max>(x, mask, dtype).to_vector<double>(), fold(x, mask, -1e9, larger)));
        EXPECT_TRUE(
            all_close(reduce<&ReduceKernels::min>(x, mask, dtype).to_vector<double>(), fold(x, mask, 1e9, smaller)));
      }
  }
}

TEST(ReduceKernels, TakeManyInputsAndManyOutputs) {
  for (const Shape& shape : {Shape{3, 70001}, Shape{70001, 3}, Shape{40, 50, 60}, Shape{2, 600, 300}}) {
    const Tensor x = random_tensor(shape);
    std::vector<double> values = x.to_vector<double>();
    for (double& v : values) v = 1 + v / 1024;
    const Tensor near_one = make_tensor(values, shape);
    for (unsigned mask = 1; mask < 1u << shape.size(); ++mask) {
      SCOPED_TRACE(detail::concat(shape, " mask ", mask));
      EXPECT_TRUE(all_close(reduce<&ReduceKernels::sum>(x, mask, DType::f64).to_vector<double>(), fold(x, mask, 0, add),
                            1e-11, 1e-10));
      EXPECT_TRUE(all_close(reduce<&ReduceKernels::prod>(near_one, mask, DType::f64).to_vector<double>(),
                            fold(near_one, mask, 1, multiply), 1e-10, 0));
      EXPECT_TRUE(
          all_close(reduce<&ReduceKernels::max>(x, mask, DType::f64).to_vector<double>(), fold(x, mask, -1e9, larger)));
    }
  }
}

TEST(ReduceKernels, LetNaNWin) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (std::int64_t at : {0, 7, 30, 36}) {
      Tensor x = random_tensor({37, 2}, dtype);
      make_tensor({nan}, {}, dtype);
      run<&CopyKernels::fill>(x.device(), Scalar(nan), x.alias({}, {}, 2 * at).write());
      for (const Tensor& v : {x, x.alias({2, 37}, {1, 2}, 0)}) {
        const unsigned long_dim = v.shape()[0] == 37 ? 1 : 2;
        const auto high = reduce<&ReduceKernels::max>(v, long_dim, dtype).to_vector<double>();
        const auto low = reduce<&ReduceKernels::min>(v, long_dim, dtype).to_vector<double>();
        EXPECT_TRUE(std::isnan(high[0]) && std::isnan(low[0]) && !std::isnan(high[1]) && !std::isnan(low[1]));
        Tensor best = empty(kept_shape(v.shape(), long_dim), DType::i64);
        run<&ReduceKernels::argmax>(v.device(), v.read(), long_dim == 1 ? 0 : 1, View(), best.write());
        EXPECT_EQ(best.to_vector<std::int64_t>()[0], at);
      }
    }
}

TEST(ReduceKernels, ArgmaxTakesTheFirstOfEquals) {
  const Tensor x = make_tensor({1, 5, 2, 5, 9, 9, 0, 9}, {2, 4});
  Tensor rows = empty({2, 1}, DType::i64), columns = empty({1, 4}, DType::i64);
  run<&ReduceKernels::argmax>(x.device(), x.read(), 1, View(), rows.write());
  run<&ReduceKernels::argmax>(x.device(), x.read(), 0, View(), columns.write());
  EXPECT_EQ(rows.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(columns.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1, 0, 1}));
}

TEST(ReduceKernels, SumIntegersWithoutOverflow) {
  const Tensor bytes = make_tensor(std::vector<double>(100000, 255), {100000}, DType::u8);
  EXPECT_EQ(reduce<&ReduceKernels::sum>(bytes, 1, DType::i64).to_vector<std::int64_t>()[0], 25500000);
  const Tensor words = make_tensor(std::vector<double>(3000, 2e9), {1000, 3}, DType::i32);
  EXPECT_EQ(reduce<&ReduceKernels::sum>(words, 1, DType::i64).to_vector<std::int64_t>(),
            std::vector<std::int64_t>(3, 2000000000000));
  const Tensor flags = make_tensor({1, 0, 1, 1, 0, 1}, {2, 3}, DType::boolean);
  EXPECT_EQ(reduce<&ReduceKernels::sum>(flags, 2, DType::i64).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 2}));
}

TEST(ReduceKernels, SumFloatsAccurately) {
  constexpr std::int64_t n = 5'000'000;
  Tensor x = empty({n}, DType::f32);
  run<&CopyKernels::fill>(x.device(), Scalar(0.1), x.write());
  const double exact = static_cast<double>(0.1f) * n;
  EXPECT_NEAR(reduce<&ReduceKernels::sum>(x, 1, DType::f32).item().to<double>() / exact, 1, 1e-6);
  const Tensor tall = x.alias({n / 5, 5}, {5, 1}, 0);
  for (const double column : reduce<&ReduceKernels::sum>(tall, 1, DType::f32).to_vector<double>())
    EXPECT_NEAR(column * 5 / exact, 1, 1e-6);
  Tensor half = empty({20000}, DType::f16);
  run<&CopyKernels::fill>(half.device(), Scalar(1), half.write());
  EXPECT_EQ(reduce<&ReduceKernels::sum>(half, 1, DType::f16).item().to<double>(), 20000);
}

TEST(ReduceKernels, GiveTheSameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  for (const Shape& shape : {Shape{1, 1000003}, Shape{300007, 4}, Shape{7, 301, 500}, Shape{3, 200001}}) {
    const Tensor x = random_tensor(shape, DType::f32);
    for (unsigned mask = 1; mask < 1u << shape.size(); ++mask) {
      set_num_threads(1);
      const auto one = reduce<&ReduceKernels::sum>(x, mask, DType::f32).to_vector<float>();
      for (const int threads : {2, 3, 8}) {
        set_num_threads(threads);
        const auto many = reduce<&ReduceKernels::sum>(x, mask, DType::f32).to_vector<float>();
        EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0) << shape << " mask " << mask;
      }
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace bytetape
