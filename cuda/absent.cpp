// Replaces the sources that need the CUDA toolkit in builds without it. Plans work, and everything else throws. The
// build defines BYTETAPE_CUDA_ABSENT, the reason (cmake/cuda.cmake).
#include "bytetape/core/error.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/runtime/interop.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/timer/timer.h"

namespace bytetape::cuda {
namespace {

[[noreturn]] void fail_absent() {
  fail<DeviceError>(
      "this build has no CUDA: " BYTETAPE_CUDA_ABSENT
      ". Configure with -DBYTETAPE_CUDA=ON and build again; Device::meta(Device::cuda()) predicts memory all the same");
}

}  // namespace

const KernelTable& kernels() { return plans(); }
std::unique_ptr<memory::Upstream> device_memory(int) { fail_absent(); }
std::unique_ptr<memory::Upstream> pinned_host_memory(int) { fail_absent(); }
void transfer(Place<const void*>, Place<void*>, std::size_t) { fail_absent(); }
void to_pinned(int, const void*, void*, std::size_t) { fail_absent(); }
void synchronize(int) { fail_absent(); }
std::unique_ptr<DeviceGraph> record(int, const std::function<void()>&) { fail_absent(); }
std::uint64_t faults_thrown(int) { return 0; }
void order(int, int, int) noexcept {}
void wait_mark(int, std::uint64_t, int) noexcept {}
void check_address(int, const void*) { fail_absent(); }
void* stream_handle(int, int) { fail_absent(); }
bool is_recorded(int, void*) noexcept { return false; }
void order_handles(int, void*, void*) noexcept {}
void wait_for_all(int) noexcept {}
int set_current(int index) noexcept { return index; }
std::uint64_t mark(int) { fail_absent(); }
std::uint64_t recorded_mark(int) { fail_absent(); }
void wait_for(int, std::uint64_t) noexcept {}
memory::DeviceTimer& device_timer() { fail_absent(); }
Event::Event(int index) : index_(index) { fail_absent(); }
Event::~Event() = default;
void Event::record() { fail_absent(); }
double Event::elapsed_time(const Event&) const { fail_absent(); }
int device_count() { return 0; }
DeviceProperties get_device_properties(int) { fail_absent(); }
std::string get_device_name(int) { fail_absent(); }
MemoryInfo mem_get_info(int) { fail_absent(); }

}  // namespace bytetape::cuda
