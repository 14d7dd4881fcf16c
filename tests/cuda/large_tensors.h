#pragma once
// Tensors of more than 2^31 elements, and more than 2^32 bytes. The rows before and behind that place, and the last
// ones, must be what the op computes of those rows alone.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace bytetape::test {

inline constexpr std::int64_t boundary = std::int64_t{1} << 31;          // an element
inline constexpr std::int64_t columns = 1024, far = boundary / columns;  // row `far` begins at the boundary
inline constexpr std::int64_t rows = far + 2125, window = 100;

class CudaLargeTensors : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (cuda::mem_get_info(gpu.index).free < std::size_t{45} << 30) GTEST_SKIP() << "needs 45 GB of the GPU's memory";
    manual_seed(3);
  }
  void TearDown() override {
    if (!IsSkipped()) memory::empty_cache(gpu);  // for other processes
  }
  static Tensor draw(const Shape& shape, DType dtype = DType::bf16) { return randn(shape, dtype, gpu); }
};

/// The value and the gradient of an op.
struct LargeResult {
  Tensor y, grad;
};
/// A gradient that is no function of y, so that norms pass something on: -1, 0, 1, -1, ... along the last dim.
inline Tensor large_seed_for(const Tensor& y) {
  if (y.rank() < 2) return ones_like(y);
  std::vector<float> pattern;
  for (std::int64_t i = 0; i < y.shape().back(); ++i) pattern.push_back(static_cast<float>(i % 3 - 1));
  return contiguous(expand(to(to(from_vector(pattern), y.device()), y.dtype()), y.shape()));
}
using LargeFunction = std::function<Tensor(const Tensor&)>;
inline LargeResult evaluate_large(const LargeFunction& f, const Tensor& leaf) {
  const Tensor x = leaf.detach().set_requires_grad();
  const Tensor y = f(x);
  if (!y.requires_grad()) return {y, {}};
  y.backward(large_seed_for(y));
  return {y.detach(), x.grad()};
}

/// Expects that an op computes each of the rows as of a part of them: of the first ones, those around `middle`, and the
/// last ones.
inline void expect_rows(const std::string& name, const LargeFunction& f, const Tensor& x, std::int64_t middle = far,
                        std::int64_t count = window) {
  SCOPED_TRACE(name);
  const LargeResult all = evaluate_large(f, x);
  EXPECT_GT(std::max(x.numel(), all.y.numel()), boundary);
  for (const std::int64_t first : {std::int64_t{0}, middle - count / 2, x.size(0) - count}) {
    const auto part = [&](const Tensor& t) { return to(clone(narrow(t, 0, first, count)), DType::f32); };
    const LargeResult alone = evaluate_large(f, clone(narrow(x, 0, first, count)));
    EXPECT_TRUE(all_close(part(all.y), to(alone.y, DType::f32), 0.02, 2e-3)) << "from row " << first;
    if (!all.grad.defined()) continue;
    EXPECT_TRUE(all_close(part(all.grad), to(alone.grad, DType::f32), 0.02, 2e-3)) << "gradient from row " << first;
  }
}

}  // namespace bytetape::test
