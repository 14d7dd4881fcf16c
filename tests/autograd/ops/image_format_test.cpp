#include "bytetape/core/images/image_format.h"

#include <functional>
#include <utility>
#include <vector>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_tensor;
using Ops = std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>>;

bool is_image(const Tensor& y) { return is_channels_last(y.shape(), y.strides()); }

// A result in rows would make the next convolution copy it.
TEST(ImageFormat, IsKeptByOpsOnImages) {
  const Tensor mask = random_tensor({3, 1, 1}) > 0, index = from_vector<std::int64_t>({1, 0, 1});
  const Ops ops{
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"to", [](const Tensor& x) { return to(x, DType::f32); }},
      {"clone", [](const Tensor& x) { return clone(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 2); }},
      {"dropout", [](const Tensor& x) { return dropout(x, 0.5); }},
      {"isnan", [](const Tensor& x) { return isnan(x); }},
      {"masked_fill", [&](const Tensor& x) { return masked_fill(x, mask, 0); }},
      {"where", [&](const Tensor& x) { return where(mask, x, 0); }},
      {"where not", [&](const Tensor& x) { return where(mask, 0, x); }},
      {"index_select", [&](const Tensor& x) { return index_select(x, 0, index); }},
      {"index_select of channels", [&](const Tensor& x) { return index_select(x, 1, index); }},
      {"sort", [](const Tensor& x) { return sort(x, 1).values; }},
      {"argsort", [](const Tensor& x) { return argsort(x, 3); }},
      {"topk", [](const Tensor& x) { return topk(x, 2, 1).indices; }},
      {"pad",
       [](const Tensor& x) {
         return pad(x, {1, 2});
       }},
      {"flip", [](const Tensor& x) { return flip(x, {3}); }},
      {"roll", [](const Tensor& x) { return roll(x, {1}, {2}); }},
      {"cat",
       [](const Tensor& x) {
         return cat({x, x}, 1);
       }},
      {"mse_loss", [](const Tensor& x) { return mse_loss(x, x * 2, Reduction::none); }},
  };
  const Tensor rows = random_tensor({2, 3, 4, 5}), image = channels_last(rows);
  for (const auto& [name, op] : ops) {
    EXPECT_TRUE(is_image(op(image))) << name;
    EXPECT_TRUE(op(rows).is_contiguous()) << name;
  }
}

}  // namespace
}  // namespace bytetape
