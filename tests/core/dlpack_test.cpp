// Tensors cross to other libraries and back without a copy. The other library is played by the test.
#include "bytetape/core/dlpack.h"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/device/shadow.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using test::FakeGpu;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A tensor of another library. Counts the calls of its deleter.
template <class Managed = DLManagedTensorVersioned>
struct Foreign {
  std::vector<float> data = {0, 1, 2, 3, 4, 5, 6, 7};
  std::array<std::int64_t, 9> shape{2, 3}, strides{4, 1};
  Managed managed{};
  int deleted = 0;

  Foreign() {
    managed.dl_tensor = {data.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), strides.data(), sizeof(float)};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    if constexpr (std::same_as<Managed, DLManagedTensorVersioned>) managed.version = {1, 0};
  }
  DLTensor& tensor() { return managed.dl_tensor; }
};

std::size_t external(Device d = Device::cpu()) { return memory::allocator(d).external().bytes; }

TEST(Dlpack, ExportsPointerShapeStridesAndDtype) {
  const Tensor base = rand({4, 6}), x = base.alias({3, 2}, {6, 2}, 7);
  DLManagedTensorVersioned* const managed = to_dlpack(x);
  const DLTensor& t = managed->dl_tensor;
  EXPECT_EQ(managed->version.major, 1);
  EXPECT_EQ(managed->flags, 0);
  EXPECT_EQ(t.data, x.data<float>());
  EXPECT_EQ(t.byte_offset, 0);
  EXPECT_EQ(t.device.device_type, kDLCPU);
  EXPECT_EQ(t.device.device_id, 0);
  EXPECT_THAT(std::vector(t.shape, t.shape + t.ndim), ElementsAre(3, 2));
  EXPECT_THAT(std::vector(t.strides, t.strides + t.ndim), ElementsAre(6, 2));
  managed->deleter(managed);
}

TEST(Dlpack, ExportsEachDtypeAndImportsIt) {
  const std::vector<std::pair<DType, std::array<int, 2>>> all = {
      {DType::f64, {kDLFloat, 64}}, {DType::f32, {kDLFloat, 32}},  {DType::bf16, {kDLBfloat, 16}},
      {DType::f16, {kDLFloat, 16}}, {DType::i64, {kDLInt, 64}},    {DType::i32, {kDLInt, 32}},
      {DType::u8, {kDLUInt, 8}},    {DType::boolean, {kDLBool, 8}}};
  for (const auto& [dtype, type] : all) {
    auto* const managed = to_dlpack_unversioned(zeros({2}, dtype));
    EXPECT_EQ(managed->dl_tensor.dtype.code, type[0]) << dtype;
    EXPECT_EQ(managed->dl_tensor.dtype.bits, type[1]) << dtype;
    EXPECT_EQ(managed->dl_tensor.dtype.lanes, 1) << dtype;
    EXPECT_EQ(from_dlpack(managed).dtype(), dtype);
  }
}

TEST(Dlpack, AnExportKeepsTheMemoryUntilAThreadDeletesIt) {
  const std::size_t before = test::allocated();
  Tensor x = rand({1000});
  float* const data = x.data<float>();
  DLManagedTensorVersioned* const managed = to_dlpack(x);
  const float first = data[0];
  x = Tensor();
  EXPECT_EQ(test::allocated(), before + test::rounded(4000));
  EXPECT_EQ(static_cast<float*>(managed->dl_tensor.data)[0], first);
  std::thread([&] { managed->deleter(managed); }).join();
  EXPECT_EQ(test::allocated(), before);
}

TEST(Dlpack, ImportsWithoutACopyAndDeletesOnce) {
  const std::size_t before = test::allocated(), before_external = external();
  Foreign<> f;
  {
    Tensor x = from_dlpack(&f.managed);
    EXPECT_EQ(x.data<float>(), f.data.data() + 1);
    EXPECT_EQ(x.shape(), (Shape{2, 3}));
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 5, 6, 7}));
    EXPECT_EQ(test::allocated(), before);
    EXPECT_EQ(external(), before_external + 7 * sizeof(float));
    const Tensor view = x.alias({3}, {1}, 4);
    x = Tensor();
    EXPECT_EQ(f.deleted, 0);
    EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{5, 6, 7}));
  }
  EXPECT_EQ(f.deleted, 1);
  EXPECT_EQ(external(), before_external);
}

TEST(Dlpack, ImportsWithoutStridesAreRowMajor) {
  Foreign<DLManagedTensor> f;
  f.tensor().strides = nullptr;
  f.tensor().byte_offset = 0;
  EXPECT_EQ(from_dlpack(&f.managed).to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(f.deleted, 1);
}

TEST(Dlpack, ImportsScalarsAndEmptyTensors) {
  Foreign<> scalar, empty;
  scalar.tensor().ndim = 0;
  scalar.tensor().shape = scalar.tensor().strides = nullptr;
  EXPECT_EQ(from_dlpack(&scalar.managed).item<float>(), 1);
  empty.tensor().data = nullptr;
  empty.shape[1] = 0;
  EXPECT_EQ(from_dlpack(&empty.managed).shape(), (Shape{2, 0}));
  EXPECT_EQ(empty.deleted, 1);
  auto* const exported = to_dlpack(zeros({2, 0}));
  EXPECT_EQ(exported->dl_tensor.data, nullptr);
  EXPECT_EQ(from_dlpack(exported).shape(), (Shape{2, 0}));
}

TEST(Dlpack, AnImportWithoutADeleterIsBorrowed) {
  Foreign<> f;
  f.managed.deleter = nullptr;
  EXPECT_EQ(from_dlpack(&f.managed).numel(), 6);
  EXPECT_EQ(f.deleted, 0);
}

TEST(Dlpack, ReadOnlyStaysReadOnly) {
  Foreign<> f;
  f.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  const Tensor x = from_dlpack(&f.managed);
  EXPECT_THROW(x.write(), ValueError);
  Tensor y = x;
  EXPECT_THROWS_SAYING(y.data<float>(), ValueError, "read-only");
  EXPECT_EQ(std::as_const(y).data<float>(), f.data.data() + 1);
  DLManagedTensorVersioned* const again = to_dlpack(x);
  EXPECT_EQ(again->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_THROW(from_dlpack(again).write(), ValueError);
}

TEST(Dlpack, ATensorThatComesBackSharesItsStorage) {
  const Tensor x = rand({10, 10});
  DLManagedTensorVersioned* const out = to_dlpack(x);
  const std::size_t before = external();
  // Another library makes a view of it, which has a deleter of its own.
  Foreign<> f;
  f.tensor().data = out->dl_tensor.data;
  f.tensor().byte_offset = 12 * sizeof(float);
  const Tensor y = from_dlpack(&f.managed);
  EXPECT_EQ(&y.storage(), &x.storage());
  EXPECT_EQ(y.storage_offset(), 12);
  EXPECT_EQ(external(), before);
  EXPECT_EQ(f.deleted, 1);
  out->deleter(out);
  Foreign<> later;  // nobody says that the memory is ours any more
  later.tensor().data = y.alias({1}, {1}, 0).data<float>();
  EXPECT_NE(&from_dlpack(&later.managed).storage(), &x.storage());
}

TEST(Dlpack, ATensorBetweenTheElementsOfTheOriginalIsRefused) {
  alignas(16) std::array<std::uint8_t, 65> bytes{};
  const Tensor x = from_blob(bytes.data() + 1, {64}, DType::u8);
  DLManagedTensorVersioned* const out = to_dlpack(x);
  Foreign<> f;
  f.tensor().data = bytes.data() + 4;
  f.tensor().byte_offset = 0;
  EXPECT_THROWS_SAYING(from_dlpack(&f.managed), ValueError, "a multiple of 4 bytes in the memory that it shares");
  EXPECT_EQ(f.deleted, 0);
  out->deleter(out);
}

TEST(Dlpack, StridesThatAreNeverUsedMayBeNegative) {
  Foreign<> one, empty;
  one.shape = {1, 3};
  one.strides = {-5, 1};
  const Tensor x = from_dlpack(&one.managed);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(x.strides(), (Strides{0, 1}));
  empty.shape = {0, 3};
  empty.strides = {-3, -1};
  EXPECT_EQ(from_dlpack(&empty.managed).strides(), (Strides{0, 0}));
}

TEST(Dlpack, AnAutocastCopyHasTheOtherLibrarysWrites) {
  const Tensor x = full({4}, 1, DType::f32);
  EXPECT_EQ(shadow_of(x, DType::bf16).to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));
  DLManagedTensorVersioned* const managed = to_dlpack(x);
  static_cast<float*>(managed->dl_tensor.data)[2] = 3;
  const Tensor first = shadow_of(x, DType::bf16);
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{1, 1, 3, 1}));
  static_cast<float*>(managed->dl_tensor.data)[2] = 4;
  EXPECT_EQ(shadow_of(x, DType::bf16).to_vector<float>(), (std::vector<float>{1, 1, 4, 1}));
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{1, 1, 3, 1})) << "a saved copy was overwritten";
  EXPECT_FALSE(current_shadow(x).defined());
  static_cast<float*>(managed->dl_tensor.data)[2] = 5;
  managed->deleter(managed);
  const Tensor last = shadow_of(x, DType::bf16);
  EXPECT_EQ(last.to_vector<float>(), (std::vector<float>{1, 1, 5, 1}));
  EXPECT_EQ(&shadow_of(x, DType::bf16).storage(), &last.storage()) << "the copy is not kept again";
}

TEST(Dlpack, AnAutocastCopyThatAReplayUpdatedIsStaleAfterAnExport) {
  const Tensor x = full({4}, 1, DType::f32);
  shadow_of(x, DType::bf16);
  const Storage::Shadow captured = x.storage().shadow();
  DLManagedTensorVersioned* const managed = to_dlpack(x);
  detail::restore_shadow(x.storage(), captured);
  static_cast<float*>(managed->dl_tensor.data)[2] = 3;
  managed->deleter(managed);
  EXPECT_EQ(shadow_of(x, DType::bf16).to_vector<float>(), (std::vector<float>{1, 1, 3, 1}));
}

TEST(Dlpack, AThreadWaitsForTheEndOfARecording) {
  FakeGpu gpu;
  Tensor x = zeros({4}, DType::f32, FakeGpu::gpu);
  void* const stream = reinterpret_cast<void*>(7);
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = stream});
  x = Tensor();
  const std::size_t held = gpu.device.statistics().allocated.current;
  gpu.recorded = stream;
  managed->deleter(managed);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(gpu.device.statistics().allocated.current, held);
  gpu.recorded = nullptr;
  finish_releases();
  EXPECT_LT(gpu.device.statistics().allocated.current, held);
}

TEST(Dlpack, AViewThatComesBackAfterAnInPlaceOpIsUsable) {
  const Tensor w = full({4}, 2, DType::f32).set_requires_grad();
  const Tensor x = w * w;
  mul_(x, w);
  DLManagedTensorVersioned* const managed = to_dlpack(x.detach());
  const Tensor back = from_dlpack(managed);
  EXPECT_EQ(sum(back * w).item<float>(), 64);
}

TEST(Dlpack, MemoryThatReachesBeyondAnExportIsNotShared) {
  std::vector<float> block(100);
  const Tensor x = from_blob(block.data() + 10, {20}, DType::f32);
  DLManagedTensorVersioned* const out = to_dlpack(x);
  for (const std::ptrdiff_t from : {8, 25, 40}) {
    Foreign<> f;
    f.tensor().data = block.data() + from;
    f.tensor().byte_offset = 0;
    EXPECT_NE(&from_dlpack(&f.managed).storage(), &x.storage()) << from;
  }
  Foreign<> within;
  within.tensor().data = block.data() + 23;
  within.tensor().byte_offset = 0;
  EXPECT_EQ(&from_dlpack(&within.managed).storage(), &x.storage());
  out->deleter(out);
}

TEST(Dlpack, AViewBehindAnotherExportWithinItSharesTheOuterStorage) {
  std::vector<float> block(100);
  const Tensor outer = from_blob(block.data(), {100}, DType::f32),
               inner = from_blob(block.data() + 10, {5}, DType::f32);
  DLManagedTensorVersioned* const exports[] = {to_dlpack(outer), to_dlpack(inner)};
  Foreign<> behind;
  behind.tensor().data = block.data() + 20;
  behind.tensor().byte_offset = 0;
  EXPECT_EQ(&from_dlpack(&behind.managed).storage(), &outer.storage());
  for (DLManagedTensorVersioned* const e : exports) e->deleter(e);
}

TEST(Dlpack, RejectsWhatItCannotTakeAndLeavesIt) {
  const auto rejects = [](auto change) {
    Foreign<> f;
    change(f);
    std::string message;
    try {
      from_dlpack(&f.managed);
    } catch (const Error& e) { message = e.what(); }
    EXPECT_EQ(f.deleted, 0) << message;
    return message;
  };
  EXPECT_THAT(rejects([](auto& f) { f.managed.version.major = 2; }),
              HasSubstr("from_dlpack: expected DLPack version 1, got version 2"));
  EXPECT_THAT(rejects([](auto& f) {
                f.tensor().dtype = {kDLInt, 16, 1};
              }),
              HasSubstr("expected one of bytetape's dtypes, got DLPack's int16"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().dtype.lanes = 4; }), HasSubstr("4 lanes"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().dtype.code = kDLComplex; }), HasSubstr("got DLPack's complex32"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().device.device_type = kDLMetal; }), HasSubstr("device type 8"));
  EXPECT_THAT(rejects([](auto& f) { f.strides[0] = -3; }), HasSubstr("strides of at least 0"));
  EXPECT_THAT(rejects([](auto& f) { f.shape[0] = -3; }), HasSubstr("(-3, 3)"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().byte_offset = 2; }), HasSubstr("a multiple of 4 bytes"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().data = nullptr; }), HasSubstr("got null"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().ndim = 9; }), HasSubstr("at most 8 dims, got 9"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().ndim = std::numeric_limits<std::int32_t>::max(); }),
              HasSubstr("at most 8 dims, got 2147483647"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().ndim = -1; }), HasSubstr("at most 8 dims, got -1"));
  EXPECT_THAT(rejects([](auto& f) { f.tensor().shape = nullptr; }), HasSubstr("expected a shape"));
  EXPECT_THAT(rejects([](auto& f) {
                f.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40, std::int64_t{1} << 40};
                f.tensor().ndim = 3;
                f.tensor().strides = nullptr;
              }),
              HasSubstr("(1099511627776, 1099511627776, 1099511627776)"));
  EXPECT_THAT(rejects([](auto& f) {
                f.tensor().data = reinterpret_cast<void*>(~std::uintptr_t{15});
                f.tensor().byte_offset = 0;
              }),
              HasSubstr("do not fit behind the address"));
  EXPECT_THAT(rejects([](auto& f) {
                f.strides[0] = std::numeric_limits<std::int64_t>::max();
                f.shape[0] = 3;
              }),
              HasSubstr("too large"));
  EXPECT_THROWS_SAYING(from_dlpack(static_cast<DLManagedTensor*>(nullptr)), ValueError, "null pointer");
  EXPECT_THROWS_SAYING(to_dlpack({}), ValueError, "undefined");
  EXPECT_THROWS_SAYING(to_dlpack(zeros({2}, DType::f32, Device::meta())), DeviceError, "holds no data");
}

TEST(Dlpack, TheOtherStreamWaitsForOursAndOursForItOnAnyThread) {
  FakeGpu gpu;
  const Tensor x = zeros({4}, DType::f32, FakeGpu::gpu);
  gpu.done.clear();
  const StreamScope on(Stream(2));
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = reinterpret_cast<void*>(7)});
  EXPECT_THAT(gpu.done, ElementsAre("0>2", "handle 102>7"));
  EXPECT_EQ(managed->dl_tensor.device.device_type, kDLCUDA);
  gpu.done.clear();
  std::thread([&] { managed->deleter(managed); }).join();
  EXPECT_THAT(gpu.done, ElementsAre("handle 7>100", "handle 7>102"));  // the home, and the user
  gpu.done.clear();
  x.read();
  EXPECT_THAT(gpu.done, ElementsAre());
  const StreamScope other(Stream(4));
  x.read();
  EXPECT_THAT(gpu.done, ElementsAre("2>4"));  // stream 2 has waited for the other library
}

TEST(Dlpack, TheDeleterOfAReadOnlyTensorOrdersTheStreamsToo) {
  FakeGpu gpu;
  std::vector<float> data(4);
  const Tensor x = from_blob(data.data(), {4}, DType::f32, {.device = FakeGpu::gpu, .is_read_only = true});
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = reinterpret_cast<void*>(7)});
  EXPECT_EQ(managed->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  gpu.done.clear();
  managed->deleter(managed);
  EXPECT_THAT(gpu.done, ElementsAre("handle 7>100"));
}

TEST(Dlpack, AllStreamsThatUsedATensorWaitWhenItComesBack) {
  FakeGpu gpu;
  const Tensor x = zeros({8}, DType::f32, FakeGpu::gpu);
  DLManagedTensorVersioned* const out = to_dlpack(x, {.stream = reinterpret_cast<void*>(7)});
  {
    const StreamScope other(Stream(3));
    x.read();
  }
  Foreign<> f;
  f.tensor().device = {kDLCUDA, 0};
  f.tensor().data = out->dl_tensor.data;
  gpu.done.clear();
  const Tensor y = from_dlpack(&f.managed, {.stream = reinterpret_cast<void*>(9)});
  EXPECT_EQ(&y.storage(), &x.storage());
  EXPECT_THAT(gpu.done, ElementsAre("handle 9>100", "handle 9>103"));
  out->deleter(out);
}

TEST(Dlpack, NothingCrossesToAStreamThatIsRecorded) {
  FakeGpu gpu;
  gpu.recorded = reinterpret_cast<void*>(7);
  const Tensor x = zeros({4}, DType::f32, FakeGpu::gpu);
  EXPECT_THROWS_SAYING(to_dlpack(x, {.stream = gpu.recorded}), CaptureError, "recording work on its stream");
  Foreign<> f;
  f.tensor().device = {kDLCUDA, 0};
  EXPECT_THROWS_SAYING(from_dlpack(&f.managed, {.stream = gpu.recorded}), CaptureError, "recording work on its stream");
  EXPECT_EQ(f.deleted, 0);
  DLManagedTensorVersioned* const managed = to_dlpack(x, {.stream = reinterpret_cast<void*>(8)});
  managed->deleter(managed);
}

TEST(Dlpack, AThreadDeletesAnImportOnceTheGpuIsDone) {
  FakeGpu gpu;
  Foreign<> f;
  f.tensor().device = {kDLCUDA, 0};
  const std::size_t before = external(FakeGpu::gpu);
  {
    const StreamScope on(Stream(3));
    Tensor x = from_dlpack(&f.managed, {.stream = reinterpret_cast<void*>(7)});
    EXPECT_THAT(gpu.done, ElementsAre("handle 7>103"));
    EXPECT_EQ(external(FakeGpu::gpu), before + 7 * sizeof(float));
    {
      const StreamScope other(Stream(4));
      x.read();
    }
    gpu.done.clear();
    const StreamScope elsewhere(Stream(5));
    x = Tensor();
  }
  finish_releases();
  EXPECT_THAT(gpu.done, ElementsAre("handle 104>103"));
  EXPECT_EQ(gpu.marks, 1);
  EXPECT_EQ(gpu.waited, 1);
  EXPECT_EQ(f.deleted, 1);
}

// The struct may be on the stack of a function that has returned.
TEST(Dlpack, AnImportWithoutADeleterDoesNotReadItsStructLater) {
  FakeGpu gpu;
  Foreign<> f;
  f.tensor().device = {kDLCUDA, 0};
  f.managed.deleter = nullptr;
  Tensor x = from_dlpack(&f.managed);
  f.managed.deleter = [](DLManagedTensorVersioned*) { ADD_FAILURE() << "it was not there at the import"; };
  x = Tensor();
  finish_releases();
}

TEST(Dlpack, AnExportStaysOnTheDevice) {
  FakeGpu gpu;
  const Tensor x = full({4}, 3, DType::f32, FakeGpu::gpu);
  x.storage().evict();
  DLManagedTensorVersioned* const managed = to_dlpack(x);
  EXPECT_FALSE(x.storage().is_evicted());
  EXPECT_TRUE(x.storage().stays());
  EXPECT_EQ(static_cast<float*>(managed->dl_tensor.data)[3], 3);
  managed->deleter(managed);
}

TEST(Dlpack, ASourceMayMoveTheMemory) {
  struct Zeros final : ByteSource {
    void refill(Storage&) override {}
  };
  const Tensor x = zeros({4});
  x.storage().set_source(make_ref<Zeros>());
  EXPECT_THROWS_SAYING(to_dlpack(x), ValueError, "clone() it first");
  const Tensor y = zeros({4});
  DLManagedTensorVersioned* const managed = to_dlpack(y);
  EXPECT_THROWS_SAYING(y.storage().set_source(make_ref<Zeros>()), ValueError, "another library has its address");
  managed->deleter(managed);
  float data[4];
  EXPECT_THROWS_SAYING(from_blob(data, {4}, DType::f32).storage().set_source(make_ref<Zeros>()), ValueError,
                       "another library has its address");
}

}  // namespace
}  // namespace bytetape
