#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/memory/export.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/replay.h"
#include "bytetape/core/memory/text/json.h"

namespace bytetape::memory {
namespace {

// Processes in the format: one for all threads of the program, and one for each device.
constexpr std::size_t threads = 1, first_device = 2;

/// Quotes a string as JSON. Invalid UTF-8 becomes U+FFFD.
std::string quoted(const std::string& text) { return json_text(text); }

/// A time in microseconds.
std::string stamp(std::uint64_t nanoseconds) { return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000); }

class ChromeWriter {
 public:
  ChromeWriter(const Log& log, std::ostream& out) : log_(log), out_(out) {
    for (const std::string& name : log.names) names_.push_back(quoted(name));
    for (const WorkCount& w : log.work_counts) {
      Work& sum = tables_[w.table];
      sum.flop += w.flop;
      sum.bytes += w.bytes;
    }
    for (const CountedStep& s : log.counted_steps) counted_[{s.step_device, s.step}][s.time] = tables_[s.table];
  }

  void write() {
    out_ << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":" << quoted(log_.program) << "},\"traceEvents\":[";
    name_process(threads, "threads");
    marks();
    for (std::size_t i = 0; i < log_.devices.size(); ++i)
      if (!log_.devices[i].records.empty()) device(log_.devices[i], first_device + i);
    device_work();
    out_ << "\n]}\n";
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ << (is_first_ ? "\n" : ",\n") << fmt::format(text, std::forward<Args>(args)...);
    is_first_ = false;
  }

  void name_process(std::size_t pid, const std::string& name) {
    line(R"({{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}}}})", pid, quoted(name));
  }

  // ---- threads

  void marks() {
    std::map<std::uint32_t, int> depth;
    for (const Mark& m : log_.marks) {
      int& open = depth[m.thread];
      if (!m.begins && open == 0) continue;  // it began before the recording
      open += m.begins ? 1 : -1;
      slice(m);
    }
    for (const auto& [thread, open] : depth)
      line(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"thread {}"}}}})", threads, thread,
           thread);
  }

  void slice(const Mark& m) {
    constexpr const char* kinds[] = {"module", "op", "phase"};
    const bool is_phase = m.kind == Mark::Kind::phase;
    line(R"({{"ph":"{}","pid":{},"tid":{},"ts":{},"cat":"{}","name":{}}})", m.begins ? 'B' : 'E', threads, m.thread,
         stamp(m.time), kinds[static_cast<int>(m.kind)], is_phase ? quoted(to_string(m.phase)) : names_[m.name]);
  }

  // ---- devices

  void device(const DeviceLog& d, std::size_t pid) {
    name_process(pid, d.name);
    const std::vector<std::size_t> roles = roles_in(d);
    Replay now;
    Holds holds;
    struct Step {
      std::size_t id;
      std::uint64_t begin;
    };
    std::map<std::uint32_t, Step> steps;  // by number
    for (const Record& r : d.records) {
      now.apply(r.event);
      switch (r.event.kind) {
        case EventKind::segment_alloc:
        case EventKind::segment_free:
          line(R"({{"ph":"C","pid":{},"tid":0,"ts":{},"name":"reserved","args":{{"bytes":{}}}}})", pid, stamp(r.time),
               now.reserved());
          break;
        case EventKind::alloc:
        case EventKind::free:
        case EventKind::retag:
          counters(pid, r.time, now.by_role(), roles);
          if (r.event.kind == EventKind::free) holds.erase(place_of(r));
          break;
        case EventKind::hold:
          holds[place_of(r)].push_back(&r);
          break;
        case EventKind::drop:
          arrow(holds[place_of(r)], r);
          break;
        case EventKind::step_begin:
          steps[r.event.step] = {++ids_, r.time};
          step(pid, r, 'b', ids_, "");
          break;
        case EventKind::step_end:
          if (const auto at = steps.find(r.event.step); at != steps.end())
            step(pid, r, 'e', at->second.id, work_of_step(pid, r, at->second.begin));
          break;
        case EventKind::argument:
        case EventKind::result:
          break;  // only advise() uses them
        default:
          instant(r, d.name);
      }
    }
  }

  /// Draws a track per stream, after track 0, which has the counters and steps. A kernel may begin before the previous
  /// one of its stream has ended. It then gets a second track, because slices of a track must nest.
  void device_work() {
    std::vector<DeviceWork> all = log_.device_work;
    std::stable_sort(all.begin(), all.end(),
                     [](const DeviceWork& a, const DeviceWork& b) { return a.begin < b.begin; });
    std::map<std::pair<std::uint32_t, std::uint32_t>, Tracks> streams;  // by device and stream
    for (const DeviceWork& w : all) {
      Tracks& tracks = streams[{w.device, w.stream}];
      const std::size_t tid = tracks.take(w.begin).value_or(tracks_);
      if (tid == tracks_) {
        ++tracks_;
        line(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"stream {}"}}}})",
             first_device + w.device, tid, w.stream);
      }
      tracks.give_back(tid, w.end);
      work(w, tid);
    }
  }

  void work(const DeviceWork& w, std::size_t tid) {
    const std::string kind = quoted(to_string(w.kind)), bytes = w.bytes ? fmt::format(",\"bytes\":{}", w.bytes) : "";
    line(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"cat":{},"name":{},"args":{{"op":{},"module":{},"phase":"{}","step":{}{}}}}})",
        first_device + w.device, tid, stamp(w.begin), stamp(w.time()), kind, w.name ? names_[w.name] : kind,
        names_[w.op], names_[w.module], to_string(w.phase), w.step, bytes);
  }

  /// The roles that any block has.
  static std::vector<std::size_t> roles_in(const DeviceLog& d) {
    std::array<bool, role_count> is_in{};
    for (const Record& r : d.records)
      if (r.event.kind == EventKind::alloc || r.event.kind == EventKind::retag)
        is_in[static_cast<std::size_t>(r.event.role)] = true;
    std::vector<std::size_t> roles;
    for (std::size_t i = 0; i < is_in.size(); ++i)
      if (is_in[i]) roles.push_back(i);
    return roles;
  }

  void counters(std::size_t pid, std::uint64_t time, const RoleBytes& bytes, const std::vector<std::size_t>& roles) {
    std::string values;
    for (std::size_t r : roles)
      fmt::format_to(std::back_inserter(values), R"({}"{}":{})", values.empty() ? "" : ",",
                     to_string(static_cast<Role>(r)), bytes[r]);
    line(R"({{"ph":"C","pid":{},"tid":0,"ts":{},"name":"allocated","args":{{{}}}}})", pid, stamp(time), values);
  }

  void step(std::size_t pid, const Record& r, char ph, std::size_t id, const std::string& arguments) {
    line(R"({{"ph":"{}","cat":"step","id":{},"pid":{},"tid":0,"ts":{},"name":"step {}"{}}})", ph, id, pid,
         stamp(r.time), r.event.step, arguments);
  }

  /// The arguments of the end of a step that began at `begin`; "" if its work was not counted.
  std::string work_of_step(std::size_t pid, const Record& end, std::uint64_t begin) const {
    const auto steps = counted_.find({static_cast<std::uint32_t>(pid - first_device), end.event.step});
    if (steps == counted_.end()) return "";
    const auto later = steps->second.upper_bound(end.time);
    if (later == steps->second.begin() || std::prev(later)->first < begin) return "";
    const Work& work = std::prev(later)->second;
    return fmt::format(R"(,"args":{{"flop":{},"bytes":{}}})", work.flop, work.bytes);
  }

  void instant(const Record& r, const std::string& device) {
    const std::string name =
        fmt::format("{} on {}: {}", to_string(r.event.kind), device, format_bytes(r.event.requested));
    line(R"({{"ph":"i","s":"t","pid":{},"tid":{},"ts":{},"cat":"memory","name":{}}})", threads, r.thread, stamp(r.time),
         quoted(name));
  }

  // ---- arrows from saving to backward

  using Place = std::pair<std::uint32_t, std::uint64_t>;
  using Holds = std::map<Place, std::vector<const Record*>>;
  static Place place_of(const Record& r) { return {r.event.segment, r.event.offset}; }

  /// Draws an arrow to a drop from the hold that it ends: the last one of the same op in the same module.
  void arrow(std::vector<const Record*>& holds, const Record& drop) {
    auto it = std::find_if(holds.rbegin(), holds.rend(),
                           [&](const Record* h) { return h->by_op == drop.by_op && h->by_module == drop.by_module; });
    if (it == holds.rend()) it = holds.rbegin();
    if (it == holds.rend()) return;
    const Record& hold = **it;
    holds.erase(std::next(it).base());
    ++ids_;
    flow("\"s\"", hold);
    flow(R"("f","bp":"e")", drop);
  }

  void flow(const char* ph, const Record& r) {
    line(R"({{"ph":{},"cat":"saved","id":{},"pid":{},"tid":{},"ts":{},"name":"saved for backward"}})", ph, ids_,
         threads, r.thread, stamp(r.time));
  }

  /// The tracks of a stream. Each is taken for a piece of work, and is free again at its end.
  class Tracks {
   public:
    /// Returns the first track that is free at `time`, if one is. Times must not decrease.
    std::optional<std::size_t> take(std::uint64_t time) {
      for (; !busy_.empty() && busy_.begin()->first <= time; busy_.erase(busy_.begin()))
        free_.insert(busy_.begin()->second);
      if (free_.empty()) return std::nullopt;
      return free_.extract(free_.begin()).value();
    }
    void give_back(std::size_t track, std::uint64_t time) { busy_.emplace(time, track); }

   private:
    std::set<std::size_t> free_;
    std::multimap<std::uint64_t, std::size_t> busy_;  // by the time at which their work ends
  };

  struct Work {
    std::uint64_t flop = 0, bytes = 0;
  };

  const Log& log_;
  std::ostream& out_;
  std::map<std::uint32_t, Work> tables_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint64_t, Work>> counted_;  // by device and number
  std::vector<std::string> names_;
  std::size_t tracks_ = 1;  // number of the next track of device work
  std::size_t ids_ = 0;     // ids given to steps and arrows
  bool is_first_ = true;
};

}  // namespace

void write_chrome_trace(const Log& log, std::ostream& out) { ChromeWriter(log, out).write(); }

}  // namespace bytetape::memory
