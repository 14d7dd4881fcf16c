#include "bytetape/distributed/gradients.h"

#include "bytetape/bytetape.h"
#include "tests/distributed/ranks.h"
#include "tests/support/device.h"

namespace bytetape {
namespace {

using test::elements;

TEST(CopyGradients, TakesEachDtypeInEachLayout) {
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    if (device.type == DeviceType::cuda && !test::is_available(device)) continue;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor rows = randn({4, 6}, dtype, device), wide = randn({4, 12}, dtype, device);
      const std::vector<Tensor> gradients{rows, transpose(rows, 0, 1), slice(wide, 1, {0, 12, 2}),
                                          transpose(randn({6, 4}, dtype, device), 0, 1)};
      std::vector<std::pair<Tensor, Tensor>> moves;
      for (const Tensor& g : gradients) moves.emplace_back(g, full(g.shape(), -7., DType::f32, device));
      dist::copy_gradients(moves);
      for (std::size_t i = 0; i < moves.size(); ++i)
        EXPECT_EQ(elements(moves[i].second), elements(gradients[i])) << device << ' ' << dtype << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace bytetape
