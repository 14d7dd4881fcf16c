// Attention in several blocks: of batches, groups, heads of a group, and queries.
#include "bytetape/autograd/ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Case {
  const char* name;
  std::int64_t b, h, g, n, m;
  AttentionOptions options = {};
  bool has_mask = false, is_inside = false;  // is_inside: heads are inside tokens
  std::int64_t d = 8, e = 12;
};

class CudaAttention : public GpuTest, public testing::WithParamInterface<Case> {
 protected:
  const Case& c = GetParam();

  Tensor heads(std::int64_t count, std::int64_t tokens, std::int64_t width, DType dtype) const {
    if (!c.is_inside) return random_tensor({c.b, count, tokens, width}, dtype);
    return transpose(random_tensor({c.b, tokens, count, width}, dtype), 1, 2);
  }

  /// y and the gradients of q, k and v, from the same dropout.
  std::vector<Tensor> results(const std::vector<Tensor>& values, const Tensor& mask, DType dtype, Device device) const {
    std::vector<Tensor> x;
    for (const Tensor& v : values) x.push_back(to(to(v, dtype), device).detach().set_requires_grad());
    const Tensor gy = x.back().detach();
    x.pop_back();
    manual_seed(5);
    AttentionOptions options = c.options;
    if (mask.defined()) options.mask = to(mask, device);
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
    std::vector<Tensor> all = grad({y}, x, {.seeds = {gy}});
    all.push_back(y.detach());
    return all;
  }

  static void expect_close(const Tensor& actual, const Tensor& expected, double tolerance) {
    double largest = 0;
    const auto values = expected.to_vector<double>();
    for (const double v : values) largest = std::max(largest, std::abs(v));
    EXPECT_TRUE(all_close(actual.to_vector<double>(), values, tolerance, tolerance * largest));
  }
};

TEST_P(CudaAttention, InBlocksEqualsTheCpus) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-12}, {DType::f32, 2e-5}, {DType::bf16, 2e-2}}) {
    SCOPED_TRACE(detail::concat(dtype));
    const std::vector<Tensor> values{heads(c.h, c.n, c.d, dtype), heads(c.g, c.m, c.d, dtype),
                                     heads(c.g, c.m, c.e, dtype), heads(c.h, c.n, c.e, dtype)};
    const Tensor mask = c.has_mask ? random_tensor({c.h, 1, c.m}, dtype) > -0.5 : Tensor();
    const auto actual = results(values, mask, dtype, gpu), again = results(values, mask, dtype, gpu),
               expected = results(values, mask, DType::f64, Device::cpu());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      SCOPED_TRACE(i);
      expect_close(actual[i], expected[i], tolerance);
      EXPECT_EQ(actual[i].to_vector<double>(), again[i].to_vector<double>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaAttention,
                         testing::Values(Case{"batches", 9, 4, 4, 800, 808},
                                         Case{"groups", 2, 9, 3, 1500, 1501, {.dropout = 0.2}},
                                         Case{"heads", 1, 8, 2, 2000, 2400, {.dropout = 0.2}},
                                         Case{"queries", 1, 2, 1, 4500, 4300, {}, true},
                                         Case{"causal", 3, 4, 2, 1100, 1300, {.causal = true}, true},
                                         Case{"inside", 2, 6, 2, 1700, 900, {.causal = true}, false, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace bytetape::test
