#include "bytetape/cuda/timer/activities.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/cuda/timer/cupti.h"
#include "bytetape/cuda/timer/kernel_name.h"

namespace bytetape::cuda {
namespace {

using Kind = memory::DeviceWork::Kind;

#if CUPTI_API_VERSION < 130000
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
#else
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#endif
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using FillRecord = CUpti_ActivityMemset4;

/// Interns the readable name of a kernel. Each name is made once.
memory::NameId name_of_kernel(const char* mangled) {
  static std::mutex& mutex = *new std::mutex;  // never destroyed, because CUPTI's thread may call at the end
  static auto& ids = *new std::unordered_map<std::string, memory::NameId>;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = ids.try_emplace(mangled ? mangled : "");
  if (is_new && mangled) at->second = memory::intern(kernel_name(mangled));
  return at->second;
}

Kind kind_of_copy(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return Kind::to_device;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return Kind::to_host;
    default:
      return Kind::on_device;
  }
}

/// Converts a record, whatever its kind. None if it is not of a timed step, or was cut off before its end.
template <class R>
std::optional<memory::TimedWork> work_of(const R& r, Kind kind, const LaunchScopes& scopes) {
  if (r.start == 0 || r.end < r.start || r.deviceId > 255) return std::nullopt;
  memory::TimedWork timed{.device = Device::cuda(static_cast<int>(r.deviceId)),
                          .step = {},
                          .work = {.begin = r.start, .end = r.end, .stream = r.streamId, .kind = kind}};
  if (!scopes.attribute(r.correlationId, r.graphNodeId, timed)) return std::nullopt;
  return timed;
}

template <class R>
const R& as(const CUpti_Activity& record) {
  return reinterpret_cast<const R&>(record);
}

std::optional<memory::TimedWork> work_of(const CUpti_Activity& record, const LaunchScopes& scopes) {
  std::optional<memory::TimedWork> found;
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    found = work_of(as<KernelRecord>(record), Kind::kernel, scopes);
    if (found) found->work.name = name_of_kernel(as<KernelRecord>(record).name);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = as<CopyRecord>(record);
    found = work_of(copy, kind_of_copy(copy.copyKind), scopes);
    if (found) found->work.bytes = copy.bytes;
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
    found = work_of(as<PeerCopyRecord>(record), Kind::on_device, scopes);
    if (found) found->work.bytes = as<PeerCopyRecord>(record).bytes;
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    found = work_of(as<FillRecord>(record), Kind::fill, scopes);
    if (found) found->work.bytes = as<FillRecord>(record).bytes;
  }
  return found;
}

}  // namespace

std::vector<memory::TimedWork> work_in(std::uint8_t* buffer, std::size_t bytes, const LaunchScopes& scopes) {
  std::vector<memory::TimedWork> all;
  CUpti_Activity* record = nullptr;
  while (cupti().ActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS)
    if (const auto work = work_of(*record, scopes)) all.push_back(*work);
  return all;
}

}  // namespace bytetape::cuda
