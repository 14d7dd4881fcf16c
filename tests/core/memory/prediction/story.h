#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/memory/prediction/checkpoint_effects.h"

namespace bytetape::memory {

inline constexpr std::size_t KiB = 1024;

/// A recording of one device, written record by record. A block is named by a letter, and its size is in KiB.
class Story {
 public:
  /// Sets the phase, module, op and thread of the records that follow.
  Story& by(Phase phase, const char* module, const char* op = "op", std::uint32_t thread = 1) {
    phase_ = phase, module_ = id(module), op_ = id(op), thread_ = thread;
    return *this;
  }
  std::size_t begin_step(std::uint32_t step = 1) {
    step_ = step;
    return add(EventKind::step_begin, {});
  }
  std::size_t end_step() { return add(EventKind::step_end, {}); }
  std::size_t alloc(char block, std::size_t kib, Role role = Role::temporary) {
    sizes_[block] = kib * KiB;
    roles_[block] = role;
    return add(EventKind::alloc, block);
  }
  std::size_t free(char block) { return add(EventKind::free, block); }
  std::size_t hold(char block) { return add(EventKind::hold, block); }
  std::size_t drop(char block) { return add(EventKind::drop, block); }
  std::size_t argument(char block, std::uint64_t before = 0) { return add(EventKind::argument, block, before); }
  std::size_t result(char block, std::uint64_t before = 0) { return add(EventKind::result, block, before); }
  std::size_t wait() { return add(EventKind::wait, {}); }

  void mark(Mark::Kind kind, const char* name, bool begins, std::uint64_t time, Phase phase = Phase::forward,
            std::uint32_t thread = 1) {
    log_.marks.push_back({time, thread, id(name), kind, begins, phase});
  }
  void runs(const char* module, std::uint64_t from, std::uint64_t to) {
    mark(Mark::Kind::module, module, true, from);
    mark(Mark::Kind::module, module, false, to);
  }

  /// A kernel of step 1 on the device.
  void works(const char* module, std::uint64_t from, std::uint64_t to, Phase phase = Phase::forward) {
    log_.device_work.push_back(
        {.begin = from, .end = to, .step = 1, .module = id(module), .op = id("op"), .phase = phase});
  }

  const Log& log() const { return log_; }
  const DeviceLog& device() const { return log_.devices[0]; }
  std::vector<Record>& records() { return log_.devices[0].records; }
  std::vector<Mark>& marks() { return log_.marks; }
  void complete() { log_.complete = true; }
  void rename(const std::string& device) { log_.devices[0].name = device; }
  /// The step, which begins with the last step_begin and ends with the last step_end.
  RecordedStep step() const {
    Range range;
    for (std::size_t i = 0; i < device().records.size(); ++i) {
      if (device().records[i].event.kind == EventKind::step_begin) range.begin = i;
      if (device().records[i].event.kind == EventKind::step_end) range.end = i;
    }
    return {log_, device(), range};
  }

 private:
  NameId id(const std::string& name) {
    const auto at = std::find(log_.names.begin(), log_.names.end(), name);
    if (at != log_.names.end()) return static_cast<NameId>(at - log_.names.begin());
    log_.names.push_back(name);
    return static_cast<NameId>(log_.names.size() - 1);
  }
  // Blocks are at one place of two segments each.
  std::size_t add(EventKind kind, std::optional<char> block, std::uint64_t requested = 0) {
    Record r{.time = 10 * records().size(), .by_module = module_, .by_op = op_, .thread = thread_};
    r.event.kind = kind, r.event.phase = phase_, r.event.step = step_, r.event.requested = requested;
    r.event.role = block ? roles_[*block] : Role::temporary;
    r.event.bytes = block ? sizes_[*block] : 0;
    r.event.offset = block ? static_cast<std::uint64_t>(*block / 2) << 20 : 0;
    r.event.segment = block ? 1 + *block % 2 : 0;
    records().push_back(r);
    return records().size() - 1;
  }

  Log log_{.names = {""}, .devices = {DeviceLog{.name = "cpu"}}};
  Phase phase_ = Phase::setup;
  NameId module_ = 0, op_ = 0;
  std::uint32_t thread_ = 1, step_ = 1;
  std::map<char, std::size_t> sizes_;
  std::map<char, Role> roles_;
};

}  // namespace bytetape::memory
