#include "bytetape/core/memory/report/work_of_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace bytetape::memory {
namespace {

/// Returns the index of the step that launched the work, among steps with one number.
std::size_t step_of(const DeviceWork& w, const std::vector<std::size_t>& same, const std::vector<StepTime>& steps) {
  const auto later = std::upper_bound(same.begin(), same.end(), w.begin,
                                      [&](std::uint64_t begin, std::size_t step) { return begin < steps[step].begin; });
  return later == same.begin() ? same.front() : *(later - 1);
}

void share_time(std::vector<WorkShare>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const WorkShare& a, const WorkShare& b) { return a.work->begin < b.work->begin; });
  std::uint64_t covered = 0;
  for (auto& [work, time] : all) {
    const std::uint64_t from = std::max(work->begin, covered);
    time = work->end > from ? work->end - from : 0;
    covered = std::max(covered, work->end);
  }
}

}  // namespace

std::vector<std::vector<WorkShare>> work_of_steps(const Log& log, const std::vector<StepTime>& steps) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::size_t>> by_number;  // of each device
  for (std::size_t i = 0; i < steps.size(); ++i) by_number[{steps[i].step_device, steps[i].step}].push_back(i);
  std::vector<std::vector<WorkShare>> all(steps.size());
  for (const DeviceWork& w : log.device_work)
    if (const auto same = by_number.find({w.step_device, w.step}); same != by_number.end())
      all[step_of(w, same->second, steps)].push_back({&w, 0});
  for (std::vector<WorkShare>& work : all) share_time(work);
  return all;
}

}  // namespace bytetape::memory
