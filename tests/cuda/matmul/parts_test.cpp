#include "bytetape/cuda/matmul/parts.h"

#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/dispatch.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

using cuda::ProductDim;

/// A matrix in storage with more rows and columns. Rows begin at multiples of 64 elements.
struct Padded {
  Padded(std::int64_t rows, std::int64_t cols, DType dtype, Device device)
      : storage(randn({rows + 3, (cols + 127) / 64 * 64}, dtype, device)),
        matrix(index(storage, {Slice(0, rows), Slice(0, cols)})) {}
  Tensor storage, matrix;
};

template <class V>
V as_batch(V x) {
  x.shape.insert(0, 1);
  x.strides.insert(0, 0);
  return x;
}
MatmulArgs product(const Tensor& a, const Tensor& b, const Tensor& y, bool accumulates) {
  return {.a = as_batch(a.read()), .b = as_batch(b.read()), .y = as_batch(y.write()), .accumulates = accumulates};
}

/// A product, and the dims along which it is divided in turn.
struct Case {
  std::int64_t m, n, k;
  std::vector<ProductDim> divided;
};
const Case cases[] = {{2568, 2576, 2608, {}},
                      {2573, 2568, 2608, {ProductDim::m}},
                      {2568, 2574, 2608, {ProductDim::n}},
                      {2568, 2568, 2609, {ProductDim::k}},
                      {2575, 2571, 2612, {ProductDim::m, ProductDim::n, ProductDim::k}},
                      {255, 257, 259, {}}};

// Needs no GPU.
TEST(MatmulParts, CoverTheProduct) {
  for (const auto& [m, n, k, divided] : cases) {
    SCOPED_TRACE(detail::concat(m, "x", n, "x", k));
    const Padded a(m, k, DType::bf16, Device::meta()), b(k, n, DType::bf16, Device::meta()),
        y(m, n, DType::f32, Device::meta());
    MatmulArgs args = product(a.matrix, b.matrix, y.matrix, false);
    for (const ProductDim dim : divided) {
      ASSERT_EQ(cuda::dim_to_divide(args), dim);
      const auto [whole, rest] = cuda::divide(args, dim);
      EXPECT_EQ(whole.flop().flop + rest.flop().flop, args.flop().flop);
      EXPECT_EQ(rest.accumulates, dim == ProductDim::k);
      EXPECT_EQ(cuda::dim_to_divide(rest), std::nullopt);
      args = whole;
    }
    EXPECT_EQ(cuda::dim_to_divide(args), std::nullopt);
  }
}

TEST(MatmulParts, AreNotMadeOfOtherProducts) {
  const Padded a(2573, 2608, DType::bf16, Device::meta()), b(2608, 2568, DType::bf16, Device::meta()),
      y(2573, 2568, DType::f32, Device::meta());
  const MatmulArgs args = product(a.matrix, b.matrix, y.matrix, false);
  ASSERT_TRUE(cuda::dim_to_divide(args));
  MatmulArgs other = args;
  other.activation = Activation::relu;
  EXPECT_FALSE(cuda::dim_to_divide(other));
  other = args;
  other.bias = args.y;
  EXPECT_FALSE(cuda::dim_to_divide(other));
  other = args;
  other.y.strides[1] += 1;
  EXPECT_FALSE(cuda::dim_to_divide(other)) << "rows are not aligned";
  other = args;
  other.a.dtype = other.b.dtype = DType::f32;
  EXPECT_FALSE(cuda::dim_to_divide(other));
}

class CudaMatmulParts : public GpuTest {};

TEST_F(CudaMatmulParts, AreTheProduct) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const DType result : {dtype, DType::f32})
      for (const auto& [m, n, k, divided] : cases)
        for (const bool turned : {false, true}) {
          SCOPED_TRACE(detail::concat(dtype, " to ", result, ", ", m, "x", n, "x", k, turned ? ", transposed" : ""));
          const Padded given_a(turned ? k : m, turned ? m : k, dtype, gpu),
              given_b(turned ? n : k, turned ? k : n, dtype, gpu), y(m, n, result, gpu);
          const auto turn = [&](const Tensor& x) { return turned ? transpose(x, 0, 1) : x; };
          const Tensor a = turn(given_a.matrix), b = turn(given_b.matrix), before = clone(y.storage),
                       exact = matmul(to(a, DType::f64), to(b, DType::f64));
          const double relative = result == DType::f32 ? 1e-4 : 1e-2, absolute = result == DType::f32 ? 1e-2 : 0.5;
          const auto run_it = [&](bool accumulates) {
            run_planned<&MatmulKernels::matmul>(gpu, product(a, b, y.matrix, accumulates));
            return to(y.matrix, DType::f64);
          };
          const Tensor once = run_it(false);
          EXPECT_TRUE(all_close(once, exact, relative, absolute));
          EXPECT_TRUE(all_close(run_it(true), once + exact, relative, 2 * absolute));
          EXPECT_EQ(run_it(false).to_vector<double>(), once.to_vector<double>());
          index(y.storage, {Slice(0, m), Slice(0, n)}) = index(before, {Slice(0, m), Slice(0, n)});
          EXPECT_EQ(y.storage.to_vector<double>(), before.to_vector<double>()) << "other elements have changed";
        }
}

}  // namespace
}  // namespace bytetape::test
