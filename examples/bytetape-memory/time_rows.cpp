#include "examples/bytetape-memory/time_rows.h"

#include <bytetape/core/error.h>
#include <bytetape/core/files/input.h>
#include <bytetape/core/memory/report/work_of_steps.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace bytetape::examples {
namespace {

template <class Key, class Row>
std::vector<Row> values_of(std::map<Key, Row>& groups) {
  std::vector<Row> rows;
  for (auto& [key, row] : groups) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

void TimeRow::add(const TimeRow& other) {
  calls += other.calls;
  time += other.time;
  device_time += other.device_time;
  work_time += other.work_time;
  flop += other.flop;
  bytes += other.bytes;
  least_time = least_time && other.least_time ? std::optional(*least_time + *other.least_time) : std::nullopt;
}

std::vector<TimeRow> time_rows(const memory::Log& log, const memory::StepTime& step, const std::string& by) {
  std::map<std::pair<std::string, std::string>, TimeRow> groups;
  for (const memory::OpTime& r : step.rows) {
    const std::string module = r.module ? printable(log.names[r.module]) : "(outside modules)";
    std::string name = by == "module" ? module : r.op == 0 ? "between ops" : printable(log.names[r.op]);
    if (by == "call" && r.op && r.module) name += " in " + module;
    const std::string phase = by != "module" && r.op == 0 ? "" : memory::to_string(r.phase);
    TimeRow& row = groups[{name, phase}];
    row.name = name;
    row.phase = phase;
    row.add({"", "", r.calls, r.time, r.device_time, step.time_of_work(r), r.flop, r.bytes, r.least_time});
  }
  std::vector<TimeRow> rows = values_of(groups);
  std::stable_sort(rows.begin(), rows.end(), [](const TimeRow& a, const TimeRow& b) {
    return std::tuple(a.device_time, a.time) > std::tuple(b.device_time, b.time);
  });
  return rows;
}

std::vector<KernelRow> kernel_rows(const memory::Log& log, const std::vector<memory::StepTime>& steps) {
  std::map<std::tuple<memory::DeviceWork::Kind, memory::NameId, memory::NameId, memory::NameId>, KernelRow> groups;
  const auto add = [&](const memory::DeviceWork& w) {
    KernelRow& row = groups[{w.kind, w.name, w.op, w.module}];
    row.kernel = w.name ? printable(log.names[w.name]) : memory::to_string(w.kind);
    row.op = printable(log.names[w.op]);
    row.module = printable(log.names[w.module]);
    ++row.count;
    row.bytes += w.bytes;
    row.time += w.time();
  };
  for (const std::vector<memory::WorkShare>& step : memory::work_of_steps(log, steps))
    for (const memory::WorkShare& share : step) add(*share.work);
  std::vector<KernelRow> rows = values_of(groups);
  std::stable_sort(rows.begin(), rows.end(), [](const KernelRow& a, const KernelRow& b) { return a.time > b.time; });
  return rows;
}

std::uint64_t median_time(const std::vector<memory::StepTime>& steps) {
  std::vector<std::uint64_t> times;
  for (const memory::StepTime& s : steps) times.push_back(s.time());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::vector<memory::StepTime> steps_with_device(const std::vector<memory::StepTime>& steps, bool with) {
  std::vector<memory::StepTime> chosen;
  std::copy_if(steps.begin(), steps.end(), std::back_inserter(chosen),
               [&](const memory::StepTime& s) { return s.device.has_value() == with; });
  return chosen;
}

bool is_prediction(const memory::Log& log) {
  return !log.counted_steps.empty() && std::ranges::all_of(log.counted_steps, [&](const memory::CountedStep& s) {
    return log.devices[s.step_device].name.starts_with("meta");
  });
}

std::vector<memory::StepTime> complete_steps(const memory::Log& log) {
  std::vector<memory::StepTime> steps = memory::step_times(log);
  check<ValueError>(!steps.empty(),
                    "times: the recording has no times of a complete step: mark steps with memory::Step, and record a "
                    "run, not a prediction");
  return steps;
}

const memory::StepTime& step_numbered(const std::vector<memory::StepTime>& steps, std::uint32_t number) {
  const auto at = std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.step == number; });
  check<ValueError>(at != steps.end(), "times: the recording has no complete step ", number, "; it has steps ",
                    steps.front().step, " to ", steps.back().step);
  return *at;
}

std::vector<memory::StepTime> later_steps(const std::vector<memory::StepTime>& steps) {
  return {steps.begin() + (steps.size() > 1), steps.end()};
}

}  // namespace bytetape::examples
