#include "bytetape/core/memory/snapshot_of.h"

#include <algorithm>
#include <vector>

#include "bytetape/core/memory/allocator/as_thread.h"

namespace bytetape::memory {
namespace {

std::vector<NameId> interned(const std::vector<std::string>& names) {
  std::vector<NameId> ids;
  for (const std::string& name : names) ids.push_back(intern(name));
  return ids;
}

/// Returns the block of an event, as it was before the event.
Block block_of(const Event& e) {
  Block b;
  b.size = e.bytes;
  b.requested = e.requested;
  b.role = e.old_role;
  b.module = e.old_module;
  b.op = e.op;
  return b;
}

/// Repeats a recording's events in a ledger, each in the phase of its thread.
class Retelling {
 public:
  explicit Retelling(std::size_t records) : around_(ambient.scope) { ledger_.reset_log(records); }
  ~Retelling() { ambient.scope = around_; }

  void tell(const Event& e, std::uint32_t thread) {
    const AsThread as(thread);
    ambient.scope.phase = e.phase;
    const bool begins = e.kind == EventKind::step_begin;
    if (begins || (e.step && !find(e.step, thread))) begin(e.step, thread);  // or it is open since before the recording
    Block b = block_of(e);
    switch (e.kind) {
      case EventKind::segment_alloc:
      case EventKind::segment_free:
        return ledger_.on_segment(b, e.kind == EventKind::segment_alloc);
      case EventKind::alloc:
        return ledger_.on_alloc(b);
      case EventKind::free:
        return ledger_.on_free(b);
      case EventKind::retag:
        return ledger_.on_retag(b, e.role, e.module);
      case EventKind::step_end:
        return end(e.step, thread);
      case EventKind::to_device:
      case EventKind::to_host:
      case EventKind::wait:
        return ledger_.on_traffic(e.kind, e.bytes);
      case EventKind::step_begin:  // done
      case EventKind::out_of_memory:
      case EventKind::hold:
      case EventKind::drop:
      case EventKind::argument:
      case EventKind::result:
        return;
    }
  }
  const Ledger& ledger() const { return ledger_; }

 private:
  struct Open {
    OpenStep step;
    std::uint32_t thread;
  };
  /// That step of the thread; or of another one, which may have begun it, and may be booked to where a thread has none.
  const Open* find(std::uint32_t step, std::uint32_t thread) const {
    const Open* found = nullptr;
    for (const Open& o : open_)
      if (o.step.number == step && (!found || o.thread == thread)) found = &o;
    return found;
  }
  void begin(std::uint32_t step, std::uint32_t thread) { open_.push_back({ledger_.begin_step(step), thread}); }
  void end(std::uint32_t step, std::uint32_t thread) {
    const Open* ended = find(step, thread);
    if (!ended) return;
    ledger_.end_step(ended->step);
    open_.erase(open_.begin() + (ended - open_.data()));
  }

  const ScopeIds around_;
  Ledger ledger_;
  std::vector<Open> open_;
};

/// Pinned memory and what else has a name of its own lies on the host.
Device device_named(const std::string& name) {
  try {
    return Device::parse(name);
  } catch (const DeviceError&) { return Device::cpu(); }
}

}  // namespace

Snapshot snapshot_of(const Log& log, const DeviceLog& device) {
  const std::vector<NameId> ids = interned(log.names);
  Retelling retelling(device.records.size());
  Snapshot s;
  for (const Record& r : device.records) {
    Event e = r.event;
    for (NameId* name : {&e.module, &e.old_module, &e.op}) *name = ids[*name];
    retelling.tell(e, r.thread);
    if (!is_only_recorded(e.kind)) s.events.push_back(e);
  }
  const Ledger& ledger = retelling.ledger();
  s.device = device_named(device.name);
  s.name = device.name;
  s.statistics = ledger.statistics();
  s.limit = device.limit_at(device.records.size());
  s.capacity = device.capacity;
  s.by_module = ledger.by_module();
  s.by_op = ledger.by_op();
  s.by_module_at_peak = ledger.by_module_at_peak();
  s.by_op_at_peak = ledger.by_op_at_peak();
  s.most_by_module = ledger.most_by_module();
  s.most_by_op = ledger.most_by_op();
  s.steps = ledger.steps();
  s.dropped = device.dropped;
  s.outside = device.outside;
  s.external = device.external;
  return s;
}

}  // namespace bytetape::memory
