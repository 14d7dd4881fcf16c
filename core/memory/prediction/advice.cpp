#include "bytetape/core/memory/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/prediction/checkpoint_effects.h"
#include "bytetape/core/memory/prediction/failed_requests.h"
#include "bytetape/core/memory/prediction/failure_advice.h"
#include "bytetape/core/memory/times.h"

namespace bytetape::memory {
namespace {

using Effects = std::vector<const CheckpointEffect*>;

bool is_on_gpu(const DeviceLog& device) { return device.name.starts_with("cuda"); }
/// Whether the host's times are those of the work: not on a GPU, whose kernels it only launches, nor on a meta device.
bool has_host_times(const DeviceLog& device) { return !is_on_gpu(device) && !device.name.starts_with("meta"); }

/// The effect that lowers the peak most in addition to `chosen`; null if none lowers it by at least `least`.
const CheckpointEffect* best_beside(const Effects& chosen, const std::vector<CheckpointEffect>& all,
                                    const RecordedStep& step, std::size_t least) {
  const CheckpointEffect* best = nullptr;
  std::size_t lowest = step.peak_with(chosen);
  if (lowest < least) return nullptr;
  lowest -= least;
  for (const CheckpointEffect& e : all) {
    if (std::any_of(chosen.begin(), chosen.end(), [&](const CheckpointEffect* other) {
          return is_within(e.module, other->module) || is_within(other->module, e.module);
        }))
      continue;
    Effects then = chosen;
    then.push_back(&e);
    if (const std::size_t peak = step.peak_with(then); peak <= lowest) lowest = peak, best = &e;
  }
  return best;
}

Advice advice_of(const Effects& effects, const RecordedStep& step, bool has_times) {
  Advice a{.modules = {}, .peak = step.peak(), .peak_then = step.peak_with(effects)};
  for (const CheckpointEffect* e : effects) {
    a.modules.push_back(e->module);
    *a.added_time += step.forward_time(e->module);
  }
  const std::uint64_t forward = step.forward_time();
  if (forward) a.forward_time = static_cast<double>(*a.added_time) / static_cast<double>(forward);
  if (!has_times) a.forward_time.reset(), a.added_time.reset();
  return a;
}

/// "a (2.00 MiB), b (1.00 MiB)", the largest first and at most five.
std::string list_of(const std::map<std::string, std::size_t>& modules) {
  constexpr std::size_t most = 5;
  std::vector<std::pair<std::string, std::size_t>> sorted(modules.begin(), modules.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i)
    texts.push_back(fmt::format("{} ({})", sorted[i].first, format_bytes(sorted[i].second)));
  if (sorted.size() > most) texts.push_back(fmt::format("{} more", sorted.size() - most));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Compares a peak with the limit of a run that ended out of memory.
std::string against_limit(const Log& log, const DeviceLog& device, std::size_t peak) {
  if (!ended_out_of_memory(log, device)) return "";
  const std::size_t limit = failed_requests(device).back().shortage.limit;
  return fmt::format("; {} the limit of {}", peak <= limit ? "within" : "still above", format_bytes(limit));
}

/// Steps that show how long forward of modules takes: on a GPU, those with device times, otherwise those in which
/// modules ran, as they do not in a replay. Without the first one, which warms up, if there are others.
std::vector<StepTime> steps_with_times(const Log& log, bool on_gpu) {
  std::vector<StepTime> steps = step_times(log);
  std::erase_if(steps, [&](const StepTime& s) {
    if (on_gpu) return !s.device.has_value();
    return std::none_of(s.rows.begin(), s.rows.end(),
                        [](const OpTime& r) { return r.phase == Phase::forward && r.module && r.time; });
  });
  if (steps.size() > 1) steps.erase(steps.begin());
  return steps;
}

/// The median of a time in forward over the steps.
template <class F>
std::uint64_t median_of(const std::vector<StepTime>& steps, bool on_gpu, const F& is_counted) {
  std::vector<std::uint64_t> times;
  for (const StepTime& s : steps) {
    times.push_back(0);
    for (const OpTime& r : s.rows)
      if (r.phase == Phase::forward && is_counted(r)) times.back() += on_gpu ? r.device_time : r.time;
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// Replaces the times of one step, which may have been a slow one, by medians of all: of the host's times or, on a GPU,
/// of device times.
void take_medians(std::vector<Advice>& all, const Log& log, const DeviceLog& device) {
  const bool on_gpu = is_on_gpu(device);
  if (!on_gpu && !has_host_times(device)) return;
  const std::vector<StepTime> steps = steps_with_times(log, on_gpu);
  if (steps.empty()) return;
  const std::uint64_t forward = median_of(steps, on_gpu, [](const OpTime& r) { return r.module || r.op; });
  if (forward == 0) return;
  for (Advice& a : all) {
    a.added_time = median_of(steps, on_gpu, [&](const OpTime& r) {
      return std::any_of(a.modules.begin(), a.modules.end(),
                         [&](const std::string& m) { return is_within(log.names[r.module], m); });
    });
    a.forward_time = static_cast<double>(*a.added_time) / static_cast<double>(forward);
  }
}

}  // namespace

std::string Advice::text() const {
  const double part = static_cast<double>(peak - peak_then) / static_cast<double>(peak);
  const std::string time = forward_time ? fmt::format(", +{} a step ({:.0f} % of forward)",
                                                      format_time(added_time.value_or(0)), 100 * *forward_time)
                                        : "";
  return fmt::format("checkpoint {}: peak {} \u2192 {} (\u2212{:.0f} %){}", module_list(modules), format_bytes(peak),
                     format_bytes(peak_then), 100 * part, time);
}

std::vector<Advice> advise(const Log& log, const DeviceLog& device) {
  const std::optional<Range> range = highest_training_step(device.records);
  if (!range) return {};
  const RecordedStep step(log, device, *range);
  if (step.offloads()) return {};
  const std::size_t worthwhile = step.peak() / 100;
  const std::vector<CheckpointEffect> effects = step.effects();
  std::vector<Advice> all;
  for (const CheckpointEffect& e : effects)
    if (Advice a = advice_of({&e}, step, has_host_times(device)); a.peak_then + worthwhile <= a.peak)
      all.push_back(std::move(a));
  Effects chosen;
  while (const CheckpointEffect* best = best_beside(chosen, effects, step, worthwhile)) chosen.push_back(best);
  if (chosen.size() > 1) all.push_back(advice_of(chosen, step, has_host_times(device)));
  take_medians(all, log, device);
  std::stable_sort(all.begin(), all.end(), [](const Advice& a, const Advice& b) {
    return std::pair(a.peak_then, a.forward_time) < std::pair(b.peak_then, b.forward_time);
  });
  return all;
}

std::vector<std::string> why_not_advised(const Log& log, const DeviceLog& device) {
  const std::optional<Range> range = highest_training_step(device.records);
  if (!range) return {};
  const RecordedStep step(log, device, *range);
  if (step.offloads())
    return {
        "no checkpoint is advised, because saved tensors go to the host: SaveOnCpu's `keep` is how many bytes stay"};
  std::map<std::string, std::size_t> unknown, torn;
  for (const auto& [module, bytes] : step.saved_by_module()) {
    if (bytes < step.peak() / 100) continue;
    if (step.torn_calls().contains(module))
      torn[module] = bytes;
    else if (!step.knows_calls_of(module))
      unknown[module] = bytes;
  }
  std::vector<std::string> reasons;
  if (!unknown.empty() && !step.knows_calls())
    reasons.push_back(
        fmt::format("no checkpoint is advised for {}: the recording does not have the inputs of modules, because an "
                    "earlier version wrote it or all modules begin with nn::Call",
                    list_of(unknown)));
  else if (!unknown.empty())
    reasons.push_back(
        fmt::format("no checkpoint is advised for {}: a module can be recomputed only if its functions return "
                    "nn::call(*this, body, inputs...)",
                    list_of(unknown)));
  if (!torn.empty())
    reasons.push_back(
        fmt::format("no checkpoint is advised for {}: its calls overlap, run backward, or have no input "
                    "or no result on this device",
                    list_of(torn)));
  return reasons;
}

std::vector<std::string> advice_texts(const Log& log) {
  constexpr std::size_t most = 5;
  std::vector<std::string> texts;
  for (const DeviceLog& d : log.devices)
    for (const std::string& text : failure_advice(log, d)) texts.push_back(d.name + ": " + text);
  for (const DeviceLog& d : log.devices) {
    const std::vector<Advice> all = advise(log, d);
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i)
      texts.push_back(fmt::format("{}: {}{}\n{}", d.name, all[i].text(), against_limit(log, d, all[i].peak_then),
                                  checkpoint_code(all[i].modules)));
    for (const std::string& reason : why_not_advised(log, d)) texts.push_back(d.name + ": " + reason);
  }
  std::stable_partition(texts.begin(), texts.end(), [](const std::string& t) { return t.find('\n') != t.npos; });
  return texts;
}

}  // namespace bytetape::memory
