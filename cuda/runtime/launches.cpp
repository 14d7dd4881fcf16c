// Errors of the driver. CUDA reports a kernel's failure at a later call. So the error names the ops that launched work
// since the host last knew that all work had succeeded.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

/// The ops that gave a device work since this thread last waited for the device, the newest first. Consecutive launches
/// of one op count once.
struct Launches {
  static constexpr std::size_t most = 8;
  std::array<memory::ScopeIds, most> ring{};
  std::size_t count = 0;

  const memory::ScopeIds& newest(std::size_t back = 0) const { return ring[(count - 1 - back) % most]; }
  std::size_t kept() const { return std::min(count, most); }
};
/// Returns the thread's launches on a device.
Launches& launches_of(int index) {
  static thread_local std::vector<Launches> all;
  const auto i = static_cast<std::size_t>(index);
  if (i >= all.size()) all.resize(i + 1);
  return all[i];
}

/// Whether a kernel caused the error. Such errors last: the process can no longer use the device.
bool is_of_a_kernel(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

/// Whether launches wait for their kernels. The environment variable also tells CUDA.
const bool launches_block = [] {
  const char* set = std::getenv("CUDA_LAUNCH_BLOCKING");
  return set && std::string_view(set) == "1";
}();

std::string name_of(const memory::ScopeIds& s) {
  const memory::ScopeGuard there(s);
  const std::string name = bytetape::detail::where();
  return name.empty() ? "(no op)" : name;
}

[[noreturn]] void fail_of_a_kernel(const std::string& words) {
  const Launches launches = ambient.current_device < 0 ? Launches{} : launches_of(ambient.current_device);
  const std::size_t kept = launches.kept();
  if (kept > 0 && (launches.count == 1 || launches_block)) {
    const memory::ScopeGuard there(launches.newest());
    fail<Error>(words, ", left by a kernel of this op",
                launches_block ? "" : ", as no other was launched by this thread",
                "; the process can no longer use the device");
  }
  std::string candidates;
  for (std::size_t back = 0; back < kept; ++back) candidates += (back ? ", " : "") + name_of(launches.newest(back));
  if (launches.count > kept) candidates += ", and earlier ones";
  fail<Error>(words, ", left by an earlier kernel; the process can no longer use the device. Launched by this thread ",
              "since it last waited, the newest first: ", candidates.empty() ? "nothing" : candidates,
              ". With CUDA_LAUNCH_BLOCKING=1 in the environment this says which");
}

}  // namespace

void note_launch(int index) {
  const memory::ScopeIds& s = memory::ambient.scope;
  Launches& launches = launches_of(index);
  if (launches.count > 0 && launches.newest().op == s.op && launches.newest().module == s.module) return;
  launches.ring[launches.count++ % Launches::most] = s;
}

void forget_launches(int index) { launches_of(index).count = 0; }

void check(cudaError_t status) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears the error, so that the next launch does not report it again
  const auto words =
      bytetape::detail::concat("CUDA: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
  if (is_of_a_kernel(status)) fail_of_a_kernel(words);
  fail<Error>(words, status == cudaErrorMemoryAllocation
                         ? ": the driver found no memory on the device for code or a graph of its own; "
                           "memory::allocator(device).empty_cache() gives it what is cached, and a lower set_limit() "
                           "leaves it some"
                         : "");
}

}  // namespace bytetape::cuda
