#include "bytetape/core/memory/resimulate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "bytetape/core/memory/allocator/policies.h"
#include "bytetape/core/memory/allocator/policy.h"
#include "bytetape/core/memory/allocator/upstream.h"

namespace bytetape::memory {
namespace {

class Resimulation {
 public:
  Resimulation(const DeviceLog& of, const ResimulateOptions& options) : of_(of), limit_(options.limit) {
    policy_ = options.policy(upstream_, [this](const Block& s, bool acquired) { on_segment(s, acquired); });
    result_.device.name = of.name;
    result_.device.capacity = of.capacity;
    result_.device.limit = limit_;
    result_.device.dropped = of.dropped;
    result_.device.records.reserve(of.records.size());
  }

  Resimulated run() {
    for (const Record& r : of_.records) {
      now_ = &r;
      take(r);
      if (result_.failure) break;
    }
    Resimulated result = std::move(result_);
    for (const auto& [place, block] : held_) policy_->deallocate(block);
    return result;
  }

 private:
  using Place = std::pair<std::uint32_t, std::uint64_t>;  // segment and offset

  void take(const Record& r) {
    switch (r.event.kind) {
      case EventKind::segment_alloc:
      case EventKind::segment_free:
        return;  // the policy decides
      case EventKind::alloc:
        return allocate(r);
      case EventKind::free:
        return release(r);
      case EventKind::retag:
      case EventKind::hold:
      case EventKind::drop:
      case EventKind::argument:
      case EventKind::result:
        if (const auto at = held_.find(place_of(r)); at != held_.end()) add(r, *at->second);
        return;
      case EventKind::out_of_memory:
        if (Block* b = serve(r)) policy_->deallocate(b);
        return;
      default:
        result_.device.records.push_back(r);
    }
  }

  void allocate(const Record& r) {
    Block* b = serve(r);
    if (!b) return;
    add(r, *b);
    allocated_ += b->size;
    const auto [at, is_new] = held_.try_emplace(place_of(r), b);
    if (is_new) return;
    give_back(at->second);  // the record of its free is missing
    at->second = b;
  }

  void release(const Record& r) {
    const auto at = held_.find(place_of(r));
    if (at == held_.end()) return;
    add(r, *at->second);
    give_back(at->second);
    held_.erase(at);
  }

  void give_back(Block* b) {
    allocated_ -= b->size;
    policy_->deallocate(b);
  }

  /// Serves a request in the same way as Allocator.
  Block* serve(const Record& r) {
    const std::size_t size = rounded(r.event.requested);
    Block* b = policy_->allocate(size, budget());
    if (!b) {
      policy_->release_cached();
      b = policy_->allocate(size, budget());
    }
    if (b) return b;
    result_.failure = {r, size, allocated_, reserved_, policy_->largest_free()};
    Record failed = r;
    failed.event.kind = EventKind::out_of_memory;
    failed.event.segment = 0;
    failed.event.offset = failed.event.bytes = 0;
    result_.device.records.push_back(failed);
    return nullptr;
  }

  std::size_t budget() const { return reserved_ < limit_ ? limit_ - reserved_ : 0; }

  static Place place_of(const Record& r) { return {r.event.segment, r.event.offset}; }

  /// Adds a record with the place and size of the block that replaces the recorded one.
  void add(Record r, const Block& b) {
    r.event.segment = b.segment;
    r.event.offset = b.offset;
    r.event.bytes = b.size;
    result_.device.records.push_back(r);
  }

  void on_segment(const Block& segment, bool acquired) {
    reserved_ += acquired ? segment.size : -segment.size;
    Record r{.time = now_->time, .thread = now_->thread};
    r.event.kind = acquired ? EventKind::segment_alloc : EventKind::segment_free;
    r.event.segment = segment.segment;
    r.event.bytes = segment.size;
    r.event.step = now_->event.step;
    r.event.phase = now_->event.phase;
    r.event.role = r.event.old_role = Role::temporary;
    result_.device.records.push_back(r);
  }

  const DeviceLog& of_;
  const std::size_t limit_;
  const Record* now_ = nullptr;
  Resimulated result_;
  std::size_t allocated_ = 0, reserved_ = 0;
  SimulatedUpstream upstream_;
  std::unique_ptr<Policy> policy_;  // calls on_segment() also in its destructor
  std::map<Place, Block*> held_;    // by their places in the recording
};

}  // namespace

MakePolicy policy_of(AllocationMode mode) {
  if (mode == AllocationMode::direct)
    return [](Upstream& u, SegmentObserver o) { return std::make_unique<DirectPolicy>(u, std::move(o)); };
  return [](Upstream& u, SegmentObserver o) { return std::make_unique<CachingPolicy>(u, std::move(o)); };
}

Resimulated resimulate(const DeviceLog& device, const ResimulateOptions& options) {
  return Resimulation(device, options).run();
}

}  // namespace bytetape::memory
