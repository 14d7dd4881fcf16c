#include "bytetape/core/memory/report/scope_work.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace bytetape::memory {

std::vector<ScopeWork> scope_work(const Log& log, std::span<const WorkCount> table) {
  std::map<std::tuple<std::uint32_t, NameId, NameId, Phase>, RooflineWork> places;
  for (const WorkCount& w : table) {
    RooflineWork& work = places[{w.device, w.module, w.op, w.phase}];
    work.flop[static_cast<std::size_t>(w.precision)] += w.flop;
    work.bytes += w.bytes;
  }
  std::vector<ScopeWork> all;
  for (const auto& [place, work] : places) {
    const auto& [device, module, op, phase] = place;
    const Ceilings* const ceilings = find_ceilings(log.ceilings, log.devices[device].name);
    all.push_back({module, op, phase, device, work, ceilings ? roofline_time(work, *ceilings) : std::nullopt});
  }
  return all;
}

bool is_gpu(const DeviceLog& device) { return device.name.starts_with("cuda"); }

ReportCounts::ReportCounts(const Log& log) {
  const std::vector<WorkCount>& all = log.work_counts;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const WorkCount& w) { return w.table != first->table; });
    for (const ScopeWork& w : scope_work(log, {first, last})) {
      table.push_back(first->table);
      module.push_back(w.module);
      op.push_back(w.op);
      phase.push_back(static_cast<std::uint64_t>(w.phase));
      flop.push_back(w.work.all_flop());
      bytes.push_back(w.work.bytes);
      least.push_back(w.least_time ? static_cast<std::uint64_t>(std::llround(std::min(*w.least_time, 9e15))) + 1 : 0);
      is_gpus.push_back(is_gpu(log.devices[w.device]));
    }
    first = last;
  }
  std::vector<CountedStep> in_order = log.counted_steps;
  std::ranges::stable_sort(in_order, {}, &CountedStep::time);
  std::uint64_t before = 0;
  for (const CountedStep& s : in_order) {
    steps.elapsed.push_back(s.time - std::exchange(before, s.time));
    steps.step.push_back(s.step);
    steps.step_device.push_back(s.step_device);
    steps.table.push_back(s.table);
  }
}

}  // namespace bytetape::memory
