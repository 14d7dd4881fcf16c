// Predictions for a GPU are what happens there, event by event: the programs of tests/memory/predict_test.cpp.
#include "bytetape/core/memory/predict.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/predict_cases.h"

namespace bytetape::test {
namespace {

class CudaPredict : public GpuTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(CudaPredict, IsWhatHappens) {
  const memory::Prediction p = expect_as_predicted(predict_cases()[GetParam()], gpu);
  EXPECT_EQ(p.is_settled(), p.fits() && predict_cases()[GetParam()].settles);
}

TEST_P(CudaPredict, IsWhatHappensNearALimit) {
  const memory::Prediction usual = memory::predict(gpu, predict_cases()[GetParam()].build);
  for (const std::size_t limit : {(usual.peak_allocated() + usual.peak_reserved()) / 2, usual.peak_allocated() / 2})
    expect_as_predicted(predict_cases()[GetParam()], gpu, {.limit = limit});
}

TEST_P(CudaPredict, IsWhatHappensInTf32) {
  const AllowTf32 tf32(true);
  expect_as_predicted(predict_cases()[GetParam()], gpu);
}

INSTANTIATE_TEST_SUITE_P(, CudaPredict, testing::Range(std::size_t{0}, predict_cases().size()),
                         [](const auto& info) { return predict_cases()[info.param].name; });

}  // namespace
}  // namespace bytetape::test
