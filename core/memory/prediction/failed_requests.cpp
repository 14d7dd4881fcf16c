#include "bytetape/core/memory/prediction/failed_requests.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "bytetape/core/memory/allocator/packing.h"
#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::memory {
namespace {

/// The segments and blocks of a device, by their places.
class Heap {
 public:
  void apply(const Event& e) {
    switch (e.kind) {
      case EventKind::segment_alloc:
        segments_[e.segment].bytes = e.bytes;
        statistics_.reserved.add(e.bytes);
        break;
      case EventKind::segment_free:
        if (segments_.erase(e.segment)) statistics_.reserved.sub(e.bytes);
        break;
      case EventKind::alloc:
        if (const auto at = segments_.find(e.segment); at != segments_.end()) {
          at->second.add(e);
          statistics_.allocated.add(e.bytes);
        }
        break;
      case EventKind::free:
        if (const auto at = segments_.find(e.segment); at != segments_.end() && at->second.blocks.erase(e.offset))
          statistics_.allocated.sub(e.bytes);
        break;
      default:
        break;
    }
  }

  Shortage shortage_of(const Record& request, const DeviceLog& device, std::size_t limit) const {
    const std::size_t reserved = statistics_.reserved.current;
    Shortage s{.name = device.name,
               .requested = request.event.requested,
               .limit = limit,
               .unreserved = limit > reserved ? limit - reserved : 0,
               .statistics = statistics_,
               .capacity = device.capacity,
               .step = request.event.step,
               .phase = request.event.phase,
               .external = device.external};
    if (device.name.starts_with("cuda")) s.outside = device.outside;
    std::vector<std::size_t> sizes;
    for (const auto& [number, segment] : segments_) {
      for (const auto& [offset, block] : segment.blocks) sizes.push_back(block.requested);
      s.largest_free = std::max(s.largest_free, most_served(segment));
      if (segment.is_small() && s.requested > small_limit) s.unusable += free_bytes(segment);
    }
    if (s.largest_free >= s.needed()) {  // the exception knew that other streams or captured steps own it
      s.elsewhere = s.cached() - s.unusable;
      s.largest_free = 0;
    }
    s.max_fit_if_compacted = max_fit_if_compacted(std::move(sizes), reserved + s.available());
    return s;
  }

 private:
  struct Piece {
    std::uint64_t bytes, requested;
  };
  struct Segment {
    std::uint64_t bytes = 0;
    std::map<std::uint64_t, Piece> blocks;  // by offset
    bool had_large_block = false;

    void add(const Event& e) {
      blocks[e.offset] = {e.bytes, e.requested};
      had_large_block |= e.bytes > small_limit;
    }
    /// Small requests share segments of at most 2 MiB, which serve no others. A low limit may leave a large request a
    /// segment of that size too.
    bool is_small() const { return bytes <= 2 * small_limit && !had_large_block; }
  };

  /// The largest request that the segment can serve.
  static std::uint64_t most_served(const Segment& segment) {
    const std::uint64_t gap = largest_gap(segment);
    return segment.is_small() ? std::min<std::uint64_t>(gap, small_limit) : gap;
  }
  static std::uint64_t largest_gap(const Segment& segment) {
    std::uint64_t end = 0, largest = 0;
    for (const auto& [offset, block] : segment.blocks) {
      largest = std::max(largest, offset - end);
      end = offset + block.bytes;
    }
    return std::max(largest, segment.bytes - end);
  }
  static std::uint64_t free_bytes(const Segment& segment) {
    std::uint64_t used = 0;
    for (const auto& [offset, block] : segment.blocks) used += block.bytes;
    return segment.bytes - used;
  }

  std::map<std::uint32_t, Segment> segments_;
  Statistics statistics_{};
};

}  // namespace

std::vector<FailedRequest> failed_requests(const DeviceLog& device) {
  std::vector<FailedRequest> failed;
  Heap heap;
  for (std::size_t i = 0; i < device.records.size(); ++i) {
    const Record& r = device.records[i];
    heap.apply(r.event);
    if (r.event.kind == EventKind::out_of_memory)
      failed.push_back({i, heap.shortage_of(r, device, device.limit_at(i))});
  }
  return failed;
}

bool ended_out_of_memory(const Log& log, const DeviceLog& device) {
  std::uint64_t failed_at = 0;
  for (auto r = device.records.rbegin(); r != device.records.rend() && failed_at == 0; ++r) {
    if (r->event.kind == EventKind::alloc || r->event.kind == EventKind::step_begin) return false;
    if (r->event.kind == EventKind::out_of_memory) failed_at = r->time;
  }
  if (failed_at == 0) return false;
  const auto began_later = [&](const Record& r) { return r.event.kind == EventKind::step_begin && r.time > failed_at; };
  return std::none_of(log.devices.begin(), log.devices.end(),
                      [&](const DeviceLog& d) { return std::any_of(d.records.begin(), d.records.end(), began_later); });
}

}  // namespace bytetape::memory
