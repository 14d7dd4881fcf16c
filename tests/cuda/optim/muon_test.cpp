// Muon on a GPU, which orthogonalizes in bf16, against the CPU in f32.
#include "bytetape/optim/muon.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using optim::Muon;

class CudaMuon : public GpuTest {
 protected:
  static std::vector<Tensor> on(Device device, const std::vector<Tensor>& values) {
    std::vector<Tensor> parameters;
    for (const Tensor& v : values) parameters.push_back(clone(to(v, device)).set_requires_grad());
    return parameters;
  }
};

TEST_F(CudaMuon, MovesAsTheCpuDoes) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    SCOPED_TRACE(detail::concat(dtype));
    std::vector<Tensor> values, gradients;
    for (const Shape& shape : {Shape{24, 40}, Shape{40, 24}, Shape{24, 40}, Shape{1, 7}, Shape{64, 24, 3, 3}})
      for (auto* list : {&values, &gradients}) list->push_back(random_tensor(shape, dtype));
    for (auto* list : {&values, &gradients}) list->push_back(channels_last(random_tensor({64, 24, 3, 3}, dtype)));
    std::vector<Tensor> here = on(Device::cpu(), values), there = on(gpu, values), again = on(gpu, values);
    for (auto* list : {&here, &there, &again}) {
      Muon muon(*list, {.lr = 0.1, .flatten = true});
      for (int step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < list->size(); ++i) (*list)[i].set_grad(to(gradients[i], (*list)[i].device()));
        muon.step();
      }
    }
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_TRUE(all_close(there[i].detach(), here[i].detach(), 0.02, 0.02)) << describe(values[i]);
      EXPECT_EQ(there[i].detach().to_vector<double>(), again[i].detach().to_vector<double>());
    }
  }
}

TEST_F(CudaMuon, ReplaysWithTheOptionsOfTheStep) {
  const Tensor value = random_tensor({32, 48}, DType::f32), factor = to(random_tensor({32, 48}, DType::f32), gpu);
  std::vector<std::vector<double>> results;
  for (const bool is_captured : {false, true}) {
    const Tensor p = on(gpu, {value})[0];
    Muon muon({p});
    const auto step = [&] {
      muon.zero_grad();
      sum(p * p * factor).backward();
      muon.step();
    };
    auto captured = capture(step);
    for (int i = 0; i < 6; ++i) {
      optim::ParamGroup& group = muon.param_groups()[0];
      group.lr = 0.1 / (i + 1);
      group.momentum = 0.5 + 0.05 * i;
      group.nesterov = i % 2 == 0;
      group.weight_decay = 0.1 * i;
      is_captured ? captured() : step();
    }
    results.push_back(p.detach().to_vector<double>());
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace bytetape::test
