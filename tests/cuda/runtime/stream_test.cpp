// Streams, pinned memory and the loader's copies on a GPU: who waits for whom, and what runs at once.
#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"

#include <thread>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaStreams : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    factor_ = rand({4096, 4096}, DType::f32, gpu);
    for (int i = 0; i < 4; ++i) {  // what is made once is made here
      const StreamScope scope{Stream(i)};
      work_for_a_while();
    }
    synchronize(gpu);
  }
  /// Keeps the thread's stream busy for some milliseconds.
  void work_for_a_while() const {
    for (int i = 0; i < 4; ++i) matmul(factor_, factor_);
  }

 private:
  Tensor factor_;
};

TEST_F(CudaStreams, SeeWhatOthersHaveWritten) {
  Tensor x = zeros({1 << 20}, DType::f32, gpu);
  for (int i = 1; i <= 12; ++i) {
    const StreamScope scope{Stream(i % 4)};
    work_for_a_while();
    x = x + i;
  }
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1 << 20, 78));
  for (int i = 1; i <= 12; ++i) {
    const StreamScope scope{Stream(i % 4)};
    work_for_a_while();
    add_(x, 1);
  }
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1 << 20, 90));
}

TEST_F(CudaStreams, WriteOnlyWhatOthersHaveRead) {
  const Tensor x = ones({1 << 20}, DType::f32, gpu);
  Tensor y;
  {
    const StreamScope scope(Stream(1));
    work_for_a_while();
    y = x + 1;
  }
  fill_(x, 5);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1 << 20, 2));
}

TEST_F(CudaStreams, TakeNoMemoryThatOthersStillRead) {
  Tensor y;
  {
    Tensor x;
    {
      const StreamScope scope(Stream(1));
      x = ones({1 << 22}, DType::f32, gpu);
    }
    work_for_a_while();
    y = x + 1;
  }
  const StreamScope scope(Stream(1));
  const Tensor next = full({1 << 22}, 9, DType::f32, gpu);  // x's place
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1 << 22, 2));
}

TEST_F(CudaStreams, AreTakenUpAgainByBackwardWithTheSameBits) {
  const auto gradients = [](bool streams) {
    manual_seed(3);
    nn::Sequential net(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 10));
    net.to(gpu);
    const Tensor x = rand({32, 64}, DType::f32, gpu);
    Tensor loss = zeros({}, DType::f32, gpu);
    for (int i = 0; i < 6; ++i) {
      const StreamScope scope{Stream(streams ? i % 3 : 0)};
      loss = loss + mean(net(x * (1 + i)));
    }
    loss.backward();
    std::vector<std::vector<float>> all;
    for (const Tensor& p : net.parameters()) all.push_back(p.grad().to_vector<float>());
    return all;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST_F(CudaStreams, ReplayACapturedStepWhereItWasRecorded) {
  Tensor sum_of_all = zeros({1000}, DType::f32, gpu);
  auto step = capture([&](const Tensor& x) {
    add_(sum_of_all, x);
    return sum_of_all * 2;
  });
  float expected = 0;
  for (int i = 0; i < 12; ++i) {
    const StreamScope scope{Stream(i % 3)};
    work_for_a_while();
    const Tensor y = step(full({1000}, i, DType::f32, gpu));
    const StreamScope other{Stream((i + 1) % 3)};
    expected += static_cast<float>(i);
    EXPECT_EQ((y + 0).to_vector<float>(), std::vector<float>(1000, 2 * expected));
  }
}

// Counters of a stream's own, by which blocks find the last of them, are used by the recorded and by the eager one.
TEST_F(CudaStreams, BranchesOfAReplayAndEagerWorkDoNotShareCounters) {
  const auto losses = [](bool eager_too) {
    manual_seed(4);
    nn::BatchNorm2d one(64), two(64);
    for (nn::Module* m : {static_cast<nn::Module*>(&one), static_cast<nn::Module*>(&two)}) m->to(gpu);
    const Tensor images = rand({32, 64, 56, 56}, DType::f32, gpu), other = rand({32, 64, 56, 56}, DType::f32, gpu);
    auto step = capture([&](const Tensor& x) {
      Tensor y, z;
      {
        const StreamScope scope(Stream(1));
        y = one(x);
      }
      {
        const StreamScope scope(Stream(2));
        z = one(x * 2);
      }
      return sum(y * z);
    });
    std::vector<float> all;
    for (int i = 0; i < 40; ++i) {
      const Tensor loss = step(images * i);
      if (eager_too) {
        const StreamScope scope{Stream(1 + i % 2)};
        two(other);
      }
      all.push_back(loss.item<float>());
    }
    return all;
  };
  EXPECT_EQ(losses(true), losses(false));
}

// Each stream of the recorded step waits for what it needs, also for what lies before the recording, and the memory of
// one is not another's too early.
TEST_F(CudaStreams, RunSideBySideInACapturedStep) {
  const Tensor scale = full({1 << 20}, 3, DType::f32, gpu);
  const auto step = [&](const Tensor& x) {
    Tensor y, z;
    for (int i = 0; i < 3; ++i) {
      {
        const StreamScope scope{Stream(1 + i % 2)};
        work_for_a_while();
        y = x * scale + i;
      }
      const Tensor dropped = x + 100;
      z = z.defined() ? z + y : y * 1;
    }
    return z;
  };
  auto captured = capture(step);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({1 << 20}, i, DType::f32, gpu);
    EXPECT_EQ(captured(x).to_vector<float>(), std::vector<float>(1 << 20, static_cast<float>(9 * i + 3)));
    const StreamScope scope(Stream(1));
    fill_(scale, 3);  // the replay has read it
  }
  EXPECT_TRUE(captured.is_captured());
}

TEST_F(CudaStreams, ServeSeveralThreads) {
  const auto program = [](int id) {
    const StreamScope scope{Stream(id % 4)};
    Tensor x = full({5000}, id, DType::f32, gpu);
    for (int i = 0; i < 300; ++i) {
      const Tensor y = x + 1;
      x = y * 1;
    }
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(5000, static_cast<float>(id + 300)));
  };
  const std::size_t before = allocated(gpu);
  std::vector<std::thread> all;
  for (int id = 0; id < 16; ++id) all.emplace_back(program, id);
  for (std::thread& t : all) t.join();
  EXPECT_EQ(allocated(gpu), before);
}

// ---- pinned memory

using CudaPinned = CudaStreams;

TEST_F(CudaPinned, IsReadWhileTheHostGoesOn) {
  const Tensor x = pin_memory(ones({1 << 20}), gpu);
  const auto waits = statistics(gpu).waits;
  work_for_a_while();
  const Tensor y = to(x, gpu);
  EXPECT_EQ(statistics(gpu).waits, waits);
  fill_(x, 2);  // once it was read
  const Tensor z = to(x, gpu);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1 << 20, 1));
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(1 << 20, 2));
}

TEST_F(CudaPinned, IsNotTakenAgainBeforeItWasRead) {
  std::vector<Tensor> sent;
  for (int i = 0; i < 20; ++i) {
    work_for_a_while();
    const Tensor source = empty_pinned({1 << 18}, DType::f32, gpu);
    fill_(source, i);
    sent.push_back(to(source, gpu));
  }
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(sent[static_cast<std::size_t>(i)].to_vector<float>(), std::vector<float>(1 << 18, static_cast<float>(i)));
  synchronize(gpu);
  EXPECT_EQ(memory::pinned_for(gpu)->allocator().statistics().allocated.current, 0u);
}

TEST_F(CudaStreams, OfALoaderCopyTheNextBatchBesideTheStep) {
  const data::TensorDataset set(zeros({12, 8 << 20}, DType::u8), arange(12));
  for (const int workers : {0, 2}) {
    data::DataLoader loader(set, {.batch_size = 2, .workers = workers, .device = gpu});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<cuda::Event> copied(6), stepped(6);
      std::size_t i = 0;
      for (const data::Batch& b : loader) {
        {
          const StreamScope scope(Stream::for_copies());
          copied[i].record();  // the batch after this one
        }
        to(b.x, DType::f32);
        for (int k = 0; k < 4; ++k) work_for_a_while();
        stepped[i++].record();
      }
      ASSERT_EQ(i, 6u);
      if (epoch == 0) continue;  // in which memory is taken
      for (std::size_t k = 0; k < 6; ++k)
        EXPECT_GT(copied[k].elapsed_time(stepped[k]), 0) << "batch " << k + 1 << ", " << workers << " workers";
    }
  }
}

}  // namespace
}  // namespace bytetape::test
