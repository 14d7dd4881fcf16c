#include "bytetape/core/memory/times.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "bytetape/core/memory/report/report_scopes.h"
#include "bytetape/core/memory/report/scope_work.h"
#include "bytetape/core/memory/report/work_of_steps.h"

namespace bytetape::memory {
namespace {

struct Begun {
  std::uint32_t step, device, thread;
  std::uint64_t begin, end;
};

/// The complete steps of device number `number`, in the order of their ends.
std::vector<Begun> complete_steps_of(const Log& log, std::uint32_t number) {
  std::vector<Begun> steps, open;
  for (const Record& r : log.devices[number].records) {
    if (r.event.kind == EventKind::step_begin) open.push_back({r.event.step, number, r.thread, r.time, 0});
    if (r.event.kind != EventKind::step_end) continue;
    const auto is_its = [&](const Begun& s) { return s.step == r.event.step; };
    auto at = std::find_if(open.begin(), open.end(), [&](const Begun& s) { return is_its(s) && s.thread == r.thread; });
    if (at == open.end()) at = std::find_if(open.begin(), open.end(), is_its);  // another thread may end a step
    if (at == open.end()) continue;                                             // it began before the recording
    at->end = r.time;
    steps.push_back(*at);
    open.erase(at);
  }
  return steps;
}

bool has_work(const std::vector<Begun>& steps, const std::set<std::pair<std::uint32_t, std::uint32_t>>& worked) {
  return std::any_of(steps.begin(), steps.end(), [&](const Begun& s) { return worked.contains({s.device, s.step}); });
}

/// The complete steps of one device, in order (step_times). A prediction has no times.
std::vector<Begun> complete_steps(const Log& log) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> worked;  // device and number of the steps that have device work
  for (const DeviceWork& w : log.device_work) worked.emplace(w.step_device, w.step);
  std::vector<Begun> most;
  bool most_has_work = false;
  for (std::uint32_t i = 0; i < log.devices.size(); ++i) {
    if (log.devices[i].name.starts_with("meta")) continue;
    std::vector<Begun> steps = complete_steps_of(log, i);
    const bool works = has_work(steps, worked);
    if (std::pair(works, steps.size()) <= std::pair(most_has_work, most.size())) continue;
    most = std::move(steps);
    most_has_work = works;
  }
  std::sort(most.begin(), most.end(), [](const Begun& a, const Begun& b) { return a.begin < b.begin; });
  return most;
}

/// The scopes of one thread, each from its time to the next one's.
struct Stretches {
  std::vector<std::uint64_t> time;
  std::vector<OpTime> scope;  // `calls` is 1 where an op begins
};

std::map<std::uint64_t, Stretches> stretches_by_thread(const std::vector<Mark>& marks) {
  const ReportScopes scopes(marks);
  std::map<std::uint64_t, Stretches> threads;
  std::uint64_t now = 0;
  for (std::size_t i = 0; i < scopes.elapsed.size(); ++i) {
    now += scopes.elapsed[i];
    Stretches& thread = threads[scopes.thread[i]];
    thread.time.push_back(now);
    thread.scope.push_back({.module = static_cast<NameId>(scopes.module[i]),
                            .op = static_cast<NameId>(scopes.op[i]),
                            .phase = static_cast<Phase>(scopes.phase[i]),
                            .calls = scopes.begins_op[i]});
  }
  return threads;
}

void sort(std::vector<OpTime>& rows) {
  std::sort(rows.begin(), rows.end(), [](const OpTime& a, const OpTime& b) {
    return std::tuple(b.time, b.device_time, a.module, a.op, a.phase) <
           std::tuple(a.time, a.device_time, b.module, b.op, b.phase);
  });
}

/// Adds up rows of the same module, op and phase.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const std::vector<OpTime>& rows) {
    for (const OpTime& r : rows) of(r) = r;
  }
  OpTime& of(const OpTime& scope) {
    OpTime& row = rows_[{scope.module, scope.op, scope.phase}];
    row.module = scope.module;
    row.op = scope.op;
    row.phase = scope.phase;
    return row;
  }
  std::vector<OpTime> sorted() const {
    std::vector<OpTime> all;
    for (const auto& [key, row] : rows_) all.push_back(row);
    sort(all);
    return all;
  }

 private:
  std::map<std::tuple<NameId, NameId, Phase>, OpTime> rows_;
};

/// The phase outside of all scopes is setup. Within a step it is forward.
OpTime within_step(OpTime scope) {
  if (scope.phase == Phase::setup) scope.phase = Phase::forward;
  return scope;
}

StepTime time_of(const Begun& step, const Stretches& all) {
  StepTime result{.step = step.step, .step_device = step.device, .begin = step.begin, .end = step.end};
  Rows rows;
  auto next =
      static_cast<std::size_t>(std::upper_bound(all.time.begin(), all.time.end(), step.begin) - all.time.begin());
  OpTime scope = within_step(next > 0 ? all.scope[next - 1] : OpTime{});
  for (std::uint64_t from = step.begin; from < step.end; ++next) {
    const bool is_last = next == all.time.size() || all.time[next] >= step.end;
    const std::uint64_t to = is_last ? step.end : all.time[next];
    rows.of(scope).time += to - from;
    if (is_last) break;
    scope = within_step(all.scope[next]);
    rows.of(scope).calls += scope.calls;
    from = to;
  }
  result.rows = rows.sorted();
  return result;
}

void add_device_time(StepTime& step, const std::vector<WorkShare>& work) {
  if (work.empty()) return;
  DeviceTime device{.begin = work.front().work->begin};
  Rows rows(step.rows);
  for (const auto& [w, time] : work) {
    rows.of(within_step({.module = w->module, .op = w->op, .phase = w->phase})).device_time += time;
    device.end = std::max(device.end, w->end);
    device.busy += time;
  }
  step.rows = rows.sorted();
  step.device = device;
}

/// Adds the work of a table.
void add_work(StepTime& step, const Log& log, std::span<const WorkCount> table) {
  Rows rows(step.rows);
  for (const ScopeWork& w : scope_work(log, table)) {
    OpTime& row = rows.of(within_step({.module = w.module, .op = w.op, .phase = w.phase}));
    row.flop += w.work.all_flop();
    row.bytes += w.work.bytes;
    row.least_time = row.least_time && w.least_time ? std::optional(*row.least_time + *w.least_time) : std::nullopt;
    step.has_gpu_work = step.has_gpu_work || is_gpu(log.devices[w.device]);
  }
  step.rows = rows.sorted();
}

void add_table(StepTime& step, const Log& log, std::uint32_t table) {
  step.is_counted = true;
  const auto first = std::ranges::lower_bound(log.work_counts, table, {}, &WorkCount::table);
  add_work(step, log, {first, std::ranges::upper_bound(first, log.work_counts.end(), table, {}, &WorkCount::table)});
}

void add_counts(std::vector<StepTime>& times, const Log& log) {
  std::multimap<std::pair<std::uint32_t, std::uint32_t>, StepTime*> by_number;  // of each device
  for (StepTime& s : times) by_number.emplace(std::pair(s.step_device, s.step), &s);
  for (const CountedStep& counted : log.counted_steps) {
    const auto [first, last] = by_number.equal_range({counted.step_device, counted.step});
    StepTime* its = nullptr;  // a step is counted just before its end; other threads may have steps of the same number
    for (auto at = first; at != last; ++at) {
      StepTime& s = *at->second;
      const bool is_within = s.begin <= counted.time && counted.time <= s.end;
      if (is_within && !s.is_counted && (!its || s.end < its->end)) its = &s;
    }
    if (its) add_table(*its, log, counted.table);
  }
}

/// The work of a row in several steps. Sums of integers could overflow.
struct WorkOfRow {
  double flop = 0, bytes = 0;
  std::optional<double> least_time = 0.0;

  void add(const OpTime& r) {
    flop += static_cast<double>(r.flop);
    bytes += static_cast<double>(r.bytes);
    least_time = least_time && r.least_time ? std::optional(*least_time + *r.least_time) : std::nullopt;
  }
  void give_mean(OpTime& r, double n) const {
    r.flop = static_cast<std::uint64_t>(flop / n);
    r.bytes = static_cast<std::uint64_t>(bytes / n);
    r.least_time = least_time ? std::optional(*least_time / n) : std::nullopt;
  }
};

}  // namespace

std::vector<StepTime> step_times(const Log& log) {
  if (log.from_ledgers) return {};
  const std::map<std::uint64_t, Stretches> threads = stretches_by_thread(log.marks);
  const Stretches none;
  std::vector<StepTime> times;
  for (const Begun& step : complete_steps(log)) {
    const auto at = threads.find(step.thread);
    const Stretches& own = at == threads.end() ? none : at->second;
    // A recording that broke off may have records that are newer than its last mark.
    if (!log.complete && !own.time.empty() && step.end > own.time.back()) continue;
    times.push_back(time_of(step, own));
  }
  if (!log.device_work.empty()) {
    const std::vector<std::vector<WorkShare>> work = work_of_steps(log, times);
    for (std::size_t i = 0; i < times.size(); ++i) add_device_time(times[i], work[i]);
  }
  add_counts(times, log);
  return times;
}

std::vector<StepTime> step_work(const Log& log) {
  std::vector<StepTime> steps;
  for (const CountedStep& counted : log.counted_steps) {
    StepTime& step = steps.emplace_back(StepTime{.step = counted.step, .step_device = counted.step_device});
    add_table(step, log, counted.table);
  }
  return steps;
}

StepTime mean_of(const std::vector<StepTime>& steps) {
  if (steps.empty()) return {};
  Rows rows;
  std::map<std::tuple<NameId, NameId, Phase>, WorkOfRow> work;
  // Rates are work over device times, so both are of the same steps.
  const bool is_timed = std::ranges::any_of(steps, [](const StepTime& s) { return s.is_counted && s.device; });
  StepTime mean{.step = steps.front().step, .step_device = steps.front().step_device, .begin = 0, .end = 0};
  DeviceTime device;
  std::uint64_t timed = 0, counted = 0;
  for (const StepTime& s : steps) {
    const bool counts = s.is_counted && (!is_timed || s.device);
    counted += counts;
    mean.has_gpu_work = mean.has_gpu_work || s.has_gpu_work;
    mean.end += s.time();
    for (const OpTime& r : s.rows) {
      OpTime& row = rows.of(r);
      row.calls += r.calls;
      row.time += r.time;
      row.device_time += r.device_time;
      if (counts) work[{r.module, r.op, r.phase}].add(r);
    }
    if (!s.device) continue;
    ++timed;
    device.end += s.device->span();
    device.busy += s.device->busy;
  }
  const std::uint64_t n = steps.size(), n_timed = std::max<std::uint64_t>(timed, 1),
                      n_counted = std::max<std::uint64_t>(counted, 1);
  mean.is_counted = counted > 0;
  mean.end /= n;
  mean.rows = rows.sorted();
  for (OpTime& r : mean.rows) {
    r.calls = (r.calls + n / 2) / n;
    r.time /= n;
    r.device_time /= n_timed;
    if (const auto at = work.find({r.module, r.op, r.phase}); at != work.end())
      at->second.give_mean(r, static_cast<double>(n_counted));
  }
  if (timed) mean.device = DeviceTime{0, device.end / timed, device.busy / timed};
  return mean;
}

}  // namespace bytetape::memory
