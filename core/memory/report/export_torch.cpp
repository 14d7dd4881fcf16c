#include <algorithm>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bytetape/core/integers.h"
#include "bytetape/core/memory/allocator/policy.h"
#include "bytetape/core/memory/export.h"
#include "bytetape/core/memory/report/pickle.h"
#include "bytetape/core/memory/report/utf8.h"

namespace bytetape::memory {
namespace {

/// Bytes that could still be reserved at a record; 0 if the capacity is unknown.
std::uint64_t free_of(const DeviceLog& d, std::size_t record, std::uint64_t reserved) {
  const std::uint64_t bound = std::min<std::uint64_t>(d.limit_at(record), d.capacity);
  return bound == std::numeric_limits<std::uint64_t>::max() ? 0 : bound - std::min(bound, reserved);
}

/// The origin of an event, as frames of a stack.
struct Frames {
  NameId tensor = 0, module = 0, op = 0;
  Phase phase = Phase::setup;
  std::uint32_t step = 0;
  auto key() const { return std::tuple(tensor, module, op, phase, step); }
};
Frames of_doer(const Record& r) { return {0, r.by_module, r.by_op, r.event.phase, r.event.step}; }

struct Held {
  const Record* alloc = nullptr;
  std::size_t number = 0;  // index of the record
};
struct Segment {
  std::uint64_t address = 0, bytes = 0;
  std::map<std::uint64_t, Held> blocks;  // by offset
};
using Segments = std::map<std::uint32_t, Segment>;

/// The segments and blocks of a device, record by record. Each segment has addresses of its own.
class Addresses {
 public:
  /// before() applies the allocations of a record, and after() its frees. Call of() and at() between them.
  void before(const Record& r, std::size_t number) {
    const Event& e = r.event;
    if (e.kind == EventKind::segment_alloc) {
      segments_[e.segment] = {next_, e.bytes, {}};
      next_ += round_up(e.bytes, alignment);
    }
    if (e.kind == EventKind::alloc) segments_[e.segment].blocks[e.offset] = {&r, number};
  }
  void after(const Record& r) {
    const Event& e = r.event;
    if (e.kind == EventKind::free) segments_[e.segment].blocks.erase(e.offset);
    if (e.kind == EventKind::segment_free) segments_.erase(e.segment);
  }
  std::uint64_t of(const Event& e) const {
    const auto s = segments_.find(e.segment);
    return e.offset + (s == segments_.end() ? 0 : s->second.address);
  }
  /// The block of an event; null if its allocation is not in the records.
  const Held* at(const Event& e) const {
    const auto s = segments_.find(e.segment);
    if (s == segments_.end()) return nullptr;
    const auto b = s->second.blocks.find(e.offset);
    return b == s->second.blocks.end() ? nullptr : &b->second;
  }
  const Segments& segments() const { return segments_; }

 private:
  static constexpr std::uint64_t alignment = std::uint64_t{2} << 20;
  std::uint64_t next_ = std::uint64_t{1} << 40;
  Segments segments_;
};

/// The last role and module of a block. PyTorch's format has no events for changes of them.
struct Tag {
  Role role = Role::temporary;  ///< the last role other than output/temporary
  NameId module = 0;            ///< the last module
};
Frames of_alloc(const Record& r, const Tag& tag) {
  return {r.what, tag.module, r.event.op, r.event.phase, r.event.step};
}

/// The tag of each alloc, by record.
std::vector<Tag> tags_of(const DeviceLog& d) {
  std::vector<Tag> tags(d.records.size());
  Addresses at;
  for (std::size_t i = 0; i < d.records.size(); ++i) {
    const Record& r = d.records[i];
    at.before(r, i);
    const Event& e = r.event;
    const Held* held = e.kind == EventKind::alloc || e.kind == EventKind::retag ? at.at(e) : nullptr;
    if (held) {
      Tag& tag = tags[held->number];
      tag.module = e.module;
      if (e.role != Role::temporary) tag.role = e.role;
    }
    at.after(r);
  }
  return tags;
}

class TorchWriter {
 public:
  TorchWriter(const Log& log, std::ostream& out) : pickle_(out) {
    for (const std::string& name : log.names) names_.push_back(utf8(name));
    for (const DeviceLog& d : log.devices)
      if (!d.records.empty()) devices_.push_back(&d);
  }

  void write() {
    pickle_.begin_dict();
    pickle_.key("device_traces");
    pickle_.begin_list();
    std::vector<End> ends;
    for (const DeviceLog* d : devices_) ends.push_back(trace(*d));
    pickle_.end_list();
    pickle_.key("segments");
    pickle_.begin_list();
    for (std::size_t i = 0; i < ends.size(); ++i)
      for (const auto& [number, s] : ends[i].segments) segment(s, ends[i].tags, i);
    pickle_.end_list();
    pickle_.key("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  /// The state at the end of the recording.
  struct End {
    Segments segments;
    std::vector<Tag> tags;
  };

  End trace(const DeviceLog& d) {
    std::vector<Tag> tags = tags_of(d);
    Addresses at;
    std::size_t reserved = 0;
    pickle_.begin_list();
    for (std::size_t i = 0; i < d.records.size(); ++i) {
      const Record& r = d.records[i];
      const Event& e = r.event;
      at.before(r, i);
      switch (e.kind) {
        case EventKind::segment_alloc:
        case EventKind::segment_free:
          reserved += e.kind == EventKind::segment_alloc ? e.bytes : -e.bytes;
          // memory_viz (of 2025) fails if there are categories but none is "unknown"
          entry(to_string(e.kind), r, "addr", at.of(e), e.bytes, of_doer(r), "unknown");
          break;
        case EventKind::alloc:
          entry("alloc", r, "addr", at.of(e), e.requested, of_alloc(r, tags[i]), to_string(tags[i].role));
          break;
        case EventKind::free:
          for (const char* action : {"free_requested", "free_completed"})
            entry(action, r, "addr", at.of(e), e.requested, of_doer(r), nullptr);
          break;
        case EventKind::out_of_memory:
          entry("oom", r, "device_free", free_of(d, i, reserved), e.requested, of_doer(r), nullptr);
          break;
        default:
          break;  // PyTorch's format has no such event
      }
      at.after(r);
    }
    pickle_.end_list();
    return {at.segments(), std::move(tags)};
  }

  void entry(const char* action, const Record& r, const char* place, std::uint64_t where, std::uint64_t size,
             const Frames& frames, const char* category) {
    pickle_.begin_dict();
    field("action", action);
    field(place, where);
    field("size", size);
    field("stream", std::uint64_t{0});
    field("time_us", r.time / 1000);
    pickle_.key("frames");
    add(frames);
    if (category) field("category", category);
    pickle_.end_dict();
  }

  void segment(const Segment& s, const std::vector<Tag>& tags, std::size_t device) {
    std::uint64_t used = 0, requested = 0;
    for (const auto& [offset, block] : s.blocks) {
      used += block.alloc->event.bytes;
      requested += block.alloc->event.requested;
    }
    pickle_.begin_dict();
    field("device", std::uint64_t{device});
    field("address", s.address);
    field("total_size", s.bytes);
    field("allocated_size", used);
    field("active_size", used);
    field("requested_size", requested);
    field("stream", std::uint64_t{0});
    field("segment_type", s.bytes <= 2 * small_limit ? "small" : "large");
    pickle_.key("is_expandable");
    pickle_.add_false();
    pickle_.key("frames");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.key("blocks");
    blocks(s, tags);
    pickle_.end_dict();
  }

  void blocks(const Segment& s, const std::vector<Tag>& tags) {
    std::uint64_t at = 0;
    pickle_.begin_list();
    for (const auto& [offset, block] : s.blocks) {
      if (offset > at) piece(s.address + at, offset - at, nullptr, {});
      piece(s.address + offset, block.alloc->event.bytes, block.alloc, tags[block.number]);
      at = offset + block.alloc->event.bytes;
    }
    if (s.bytes > at) piece(s.address + at, s.bytes - at, nullptr, {});
    pickle_.end_list();
  }

  /// Adds a block, or a free piece if `alloc` is null.
  void piece(std::uint64_t address, std::uint64_t size, const Record* alloc, const Tag& tag) {
    pickle_.begin_dict();
    field("address", address);
    field("size", size);
    field("requested_size", alloc ? alloc->event.requested : 0);
    field("state", alloc ? "active_allocated" : "inactive");
    pickle_.key("frames");
    if (alloc) {
      add(of_alloc(*alloc, tag));
    } else {
      pickle_.begin_list();
      pickle_.end_list();
    }
    pickle_.end_dict();
  }

  /// Adds frames, which memory_viz shows as "tensor:0:f32 64x10", "net.fc1:0:linear" and "step:3:forward".
  void add(const Frames& f) {
    if (const auto known = frames_.find(f.key()); known != frames_.end()) return pickle_.repeat(known->second);
    pickle_.begin_list();
    if (f.tensor) frame("tensor", 0, names_[f.tensor]);
    frame(f.module ? names_[f.module] : "(outside modules)", 0, f.op ? names_[f.op] : "(outside ops)");
    frame("step", f.step, to_string(f.phase));
    pickle_.end_list();
    frames_.emplace(f.key(), pickle_.remember());
  }

  void frame(const std::string& filename, std::uint64_t line, const std::string& name) {
    pickle_.begin_dict();
    field("filename", filename);
    field("line", line);
    field("name", name);
    pickle_.end_dict();
  }

  template <class T>
  void field(const char* name, const T& value) {
    pickle_.key(name);
    pickle_.add(value);
  }

  PickleWriter pickle_;
  std::vector<std::string> names_;
  std::vector<const DeviceLog*> devices_;
  std::map<decltype(Frames().key()), std::uint32_t> frames_;
};

}  // namespace

void write_torch_snapshot(const Log& log, std::ostream& out) { TorchWriter(log, out).write(); }

}  // namespace bytetape::memory
