// NCCL in a group of one rank. tests/distributed has those of several.
#include "bytetape/autograd/capture.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/collective.h"
#include "bytetape/core/kernels/table.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class Nccl : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const KernelTable& kernels = *backend(gpu).kernels;
    const auto connect = kernels.find(&CollectiveKernels::connect);
    if (!connect) GTEST_SKIP() << "this build has no NCCL";
    communicator_ = connect(gpu, kernels.find(&CollectiveKernels::new_id)(), 0, 1, std::chrono::seconds(60));
  }
  /// Runs a collective from x to a new tensor.
  Tensor run(Collective kind, const Tensor& x, ReduceOp op = ReduceOp::sum) {
    Tensor y = empty(x.shape(), x.dtype(), x.device());
    communicator_->run({.kind = kind, .op = op, .peer = 0, .x = x.read(), .y = y.write()}, {});
    return y;
  }
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(Nccl, CopiesInAGroupOfOne) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    Tensor x = to(randint(0, 100, {1031}, DType::i64, Device()), dtype);
    x = to(x, gpu);
    for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                  Collective::all_to_all, Collective::broadcast})
      EXPECT_EQ(run(kind, x).to_vector<double>(), x.to_vector<double>()) << name_of(kind) << dtype;
  }
}

TEST_F(Nccl, RunsInACapturedStep) {
  const Tensor w = full({100}, 1., DType::f32, gpu);
  const auto step = [&](const Tensor& x) {
    w += run(Collective::all_reduce, x * 2.);
    return run(Collective::all_reduce, w, ReduceOp::average);
  };
  auto captured = capture(step);
  double expected = 1;
  for (int i = 0; i < 6; ++i) {
    const Tensor y = captured(full({100}, i, DType::f32, gpu));
    expected += 2 * i;
    EXPECT_EQ(y.to_vector<double>(), std::vector<double>(100, expected));
  }
  EXPECT_TRUE(captured.is_captured());
  communicator_.reset();  // the graph keeps the connection
  EXPECT_EQ(captured(full({100}, 0., DType::f32, gpu)).to_vector<double>(), std::vector<double>(100, expected));
}

TEST_F(Nccl, TellsUnfinishedCollectives) {
  run(Collective::all_reduce, full({100}, 1., DType::f32, gpu));
  synchronize(gpu);
  EXPECT_FALSE(communicator_->unfinished());
}

TEST_F(Nccl, ReachesABusyDevice) {
  Tensor x = full({1 << 26}, 1., DType::f32, gpu);
  synchronize(gpu);
  for (int i = 0; i < 50; ++i) x = x * 1.;
  const Tensor y = run(Collective::all_reduce, x);
  const auto late = communicator_->unfinished();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->text, "all_reduce (sum) of f32, 67108864 elements");
  EXPECT_EQ(late->number, 1u);
  EXPECT_EQ(y[5].item<float>(), 1);
}

}  // namespace
}  // namespace bytetape::test
