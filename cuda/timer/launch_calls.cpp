#include "bytetape/cuda/timer/launch_calls.h"

#include <algorithm>
#include <string_view>

namespace bytetape::cuda {
namespace {

/// The functions have many versions, such as cudaLaunchKernel_ptsz_v7000 and cuMemsetD32Async.
bool launches_work(std::string_view name) {
  if (!name.starts_with("cu")) return false;
  name.remove_prefix(name.starts_with("cuda") ? 4 : 2);
  constexpr std::string_view begins[] = {"Launch", "GraphLaunch", "Memcpy", "Memset", "64Memset"};
  return std::any_of(std::begin(begins), std::end(begins), [&](std::string_view b) { return name.starts_with(b); });
}

void add_calls(CUpti_CallbackDomain domain, CUpti_CallbackId end, std::vector<LaunchCall>& calls) {
  for (CUpti_CallbackId id = 1; id < end; ++id) {
    const char* name = nullptr;
    if (cupti().GetCallbackName(domain, id, &name) == CUPTI_SUCCESS && name && launches_work(name))
      calls.push_back({domain, id});
  }
}

}  // namespace

// A library may call the driver, or the runtime, which calls the driver.
std::vector<LaunchCall> launch_calls() {
  std::vector<LaunchCall> calls;
  add_calls(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE, calls);
  add_calls(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE, calls);
  return calls;
}

}  // namespace bytetape::cuda
