// Tensors go from a GPU to a file and back, by way of few pieces of the host's memory.
#include <numeric>

#include "bytetape/bytetape.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "tests/cuda/gpu.h"
#include "tests/support/memory.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

class CudaFiles : public GpuTest {
 protected:
  const TemporaryDir dir_;
  const std::string path_ = dir_ / "some.safetensors";
};

TEST_F(CudaFiles, HoldWhatTheCpuWrites) {
  const Tensor x = randn({5, 3, 7, 2}), flags = randn({9}) > 0, none = zeros({0, 3}, DType::i64);
  const NamedTensors on_cpu{{"x", x}, {"low", to(x, DType::bf16)}, {"flags", flags}, {"none", none}};
  NamedTensors on_gpu;
  for (const auto& [name, t] : on_cpu) on_gpu.emplace_back(name, to(t, gpu));
  on_gpu[0].second = channels_last(on_gpu[0].second);
  save_safetensors(path_, on_cpu);
  const std::string expected = content_of(path_);
  save_safetensors(path_, on_gpu);
  EXPECT_TRUE(content_of(path_) == expected);
  save_npy(dir_ / "cpu.npy", x);
  save_npy(dir_ / "gpu.npy", on_gpu[0].second);
  EXPECT_TRUE(content_of(dir_ / "gpu.npy") == content_of(dir_ / "cpu.npy"));
  const Tensor y = load_npy(dir_ / "cpu.npy", gpu);
  EXPECT_EQ(y.device(), gpu);
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
}

TEST_F(CudaFiles, LoadStraightIntoAModelThere) {
  const DefaultDevice here(gpu);
  nn::Sequential a, b;
  for (nn::Sequential* net : {&a, &b}) net->push_back(nn::Conv2d(3, 8, 3)).push_back(nn::BatchNorm2d(8));
  save_safetensors(path_, a.state_dict());
  load_safetensors_into(path_, b.state_dict());
  const NamedTensors from = a.state_dict(), to = b.state_dict();
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(to[i].second.to_vector<double>(), from[i].second.to_vector<double>()) << from[i].first;
    EXPECT_EQ(to[i].second.strides(), from[i].second.strides());
  }
}

TEST_F(CudaFiles, TakeFewPiecesOfTheHost) {
  const Shape shape{48, 64, 128, 64};  // 96 MiB
  const Tensor x = channels_last(arange(numel(shape), DType::f32, gpu).alias(shape, contiguous_strides(shape), 0));
  Tensor y = empty(shape, MemoryFormat::channels_last, DType::f32, gpu);
  const auto host = [] {
    return statistics().allocated.peak + memory::pinned_for(gpu)->allocator().statistics().allocated.peak;
  };
  memory::reset_peaks(Device::cpu());
  memory::pinned_for(gpu)->allocator().reset_peaks();
  const std::size_t before = host();
  save_safetensors(path_, {{"x", x}});
  load_safetensors_into(path_, {{"x", y}});
  EXPECT_LE(host() - before, std::size_t{64} << 20);
  EXPECT_EQ(sum(x != y).item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace bytetape::test
