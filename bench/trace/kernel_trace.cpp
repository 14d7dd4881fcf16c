// A library that the CUDA driver loads into a program (CUDA_INJECTION64_PATH). At the end of the program it writes the
// last kernels and copies, with their times from CUPTI's activity records, to the file named by KERNEL_TRACE.
#include <cupti.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <string>

namespace {

struct Activity {
  std::uint64_t start, end;  // ns
  std::int32_t grid_x, grid_y;
  std::string name;
};
// The number of activities to keep: KERNEL_TRACE_MOST, else some steps of every workload.
std::size_t most() {
  const char* told = std::getenv("KERNEL_TRACE_MOST");
  return told ? std::strtoull(told, nullptr, 10) : 6000;
}
const std::size_t most_kept = most();
constexpr std::size_t buffer_bytes = std::size_t{8} << 20;

// Never destroyed, because CUPTI may call at the end of the process.
auto& activities = *new std::deque<Activity>;
auto& mutex = *new std::mutex;

#if CUPTI_API_VERSION < 130000  // version 5 has `start` and `end` in the same places as version 6
using Memcpy = CUpti_ActivityMemcpy5;
#else
using Memcpy = CUpti_ActivityMemcpy6;
#endif

void keep(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& k = reinterpret_cast<const CUpti_ActivityKernel9&>(record);
    activities.push_back({k.start, k.end, k.gridX, k.gridY, k.name});
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& c = reinterpret_cast<const Memcpy&>(record);
    activities.push_back({c.start, c.end, 0, 0, "memcpy"});
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& s = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    activities.push_back({s.start, s.end, 0, 0, "memset"});
  }
  if (activities.size() > most_kept) activities.pop_front();
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *size = *buffer ? buffer_bytes : 0;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) keep(*record);
  std::free(buffer);
}

void write() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* path = std::getenv("KERNEL_TRACE");
  std::ofstream out(path ? path : "kernels.tsv");
  const std::lock_guard lock(mutex);
  for (const Activity& a : activities)
    out << a.start << '\t' << a.end << '\t' << a.grid_x << '\t' << a.grid_y << '\t' << a.name << '\n';
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  bool ok = cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS;
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    ok = ok && cuptiActivityEnable(kind) == CUPTI_SUCCESS;
  std::atexit(write);
  return ok;
}
