#include "bytetape/core/memory/report/report_work.h"

#include <algorithm>
#include <utility>

namespace bytetape::memory {

ReportWork::ReportWork(std::vector<DeviceWork> work) {
  std::stable_sort(work.begin(), work.end(),
                   [](const DeviceWork& a, const DeviceWork& b) { return a.begin < b.begin; });
  std::uint64_t before = 0;
  for (const DeviceWork& w : work) {
    elapsed.push_back(w.begin - std::exchange(before, w.begin));
    time.push_back(w.time());
    kind.push_back(static_cast<std::uint64_t>(w.kind));
    name.push_back(w.name);
    module.push_back(w.module);
    op.push_back(w.op);
    phase.push_back(static_cast<std::uint64_t>(w.phase));
    step.push_back(w.step);
    step_device.push_back(w.step_device);
    device.push_back(w.device);
    stream.push_back(w.stream);
    bytes.push_back(w.bytes);
  }
}

}  // namespace bytetape::memory
