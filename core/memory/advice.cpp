// Of a step, each block's life is known: when it was born, in which module, who kept it, when it died. A module that is
// checkpointed lets go, behind its forward, of the blocks that were born in it and that nodes of it alone keep; they
// are born again, with what else its forward takes, when its backward first needs one.
#include "bytetape/core/memory/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/replay.h"

namespace bytetape::memory {
namespace {

/// Records from `begin` on, up to `end`.
struct Range {
  std::size_t begin = 0, end = 0;
  bool has(std::size_t i) const { return begin <= i && i < end; }
};

/// A block that was born in the step.
struct Life {
  std::size_t bytes, born, died;
  std::size_t let_go = 0;      // first in backward, by a node that kept it; 0 where none does
  std::set<NameId> needed_in;  // who keeps it for backward, and who lets it go
  bool is_saved = false;
};

bool is_within(std::string_view path, std::string_view module) {
  return path == module || (path.starts_with(module) && path[module.size()] == '.');
}

/// What goes to the host and comes back goes while other modules run.
bool moves(const Record& r, const Log& log) {
  const std::string& op = log.names[r.by_op];
  return op == "evict" || op == "restore";
}

bool runs_backward(const Record& r) { return r.event.phase == Phase::backward; }

/// Of the steps that began, went backward and ended the one with the highest level, the first of equals.
std::optional<Range> highest_step(const std::vector<Record>& records) {
  std::optional<Range> found;
  std::size_t highest = 0, peak = 0, begin = 0;
  bool is_training = false;
  Replay replay;
  for (std::size_t i = 0; i < records.size(); ++i) {
    replay.apply(records[i].event);
    if (records[i].event.kind == EventKind::step_begin) {
      begin = i;
      peak = 0;
      is_training = false;
      continue;
    }
    peak = std::max(peak, replay.allocated());
    is_training |= runs_backward(records[i]);
    if (records[i].event.kind == EventKind::step_end && is_training && peak > highest) {
      highest = peak;
      found = Range{begin, i};
    }
  }
  return found;
}

class StepView {
 public:
  StepView(const Log& log, const DeviceLog& device, Range step)
      : log_(log), device_(device), records_(device.records), step_(step) {
    Replay replay;
    for (std::size_t i = 0; i < step.begin; ++i) replay.apply(records_[i].event);
    for (std::size_t i = step.begin; i < step.end; ++i) {
      replay.apply(records_[i].event);
      levels_.push_back(replay.allocated());
      note_life(i);
    }
  }

  bool is_timed() const { return !device_.name.starts_with("meta"); }
  std::size_t peak() const { return *std::max_element(levels_.begin(), levels_.end()); }

  /// Of modules that ran forward in the step, and of those around them.
  std::set<std::string> modules() const {
    std::set<std::string> all;
    for (std::size_t i = step_.begin; i < step_.end; ++i) {
      if (records_[i].event.phase != Phase::forward) continue;
      const std::string& path = log_.names[records_[i].by_module];
      for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
        all.insert(path.substr(0, dot));
      if (!path.empty()) all.insert(path);
    }
    return all;
  }

  /// What a checkpoint of one module changes.
  struct Change {
    std::string module;
    Range away;         // where its bytes are not held
    std::size_t bytes;  // of what it makes on its way
    Range again;        // where its forward runs a second time
    std::size_t rise;   // how far it then goes above the level before it
  };

  /// None where the module does not run forward in one piece, and backward behind it.
  std::optional<Change> change_of(const std::string& module) const {
    const auto in_phase = [&](Phase phase) {
      return [this, module, phase](const Record& r) {
        return r.event.phase == phase && is_within(log_.names[r.by_module], module);
      };
    };
    const auto forward = span_of(in_phase(Phase::forward)), backward = span_of(in_phase(Phase::backward));
    if (!forward || !backward || backward->begin < forward->end) return std::nullopt;
    for (std::size_t i = forward->begin; i < forward->end; ++i)
      if (!in_phase(Phase::forward)(records_[i]) && !moves(records_[i], log_)) return std::nullopt;

    const std::vector<const Life*> inner = inner_lives(module, *forward, *backward);
    if (inner.empty()) return std::nullopt;
    const Range again = second_run(inner, *backward);
    return Change{module, {forward->end, again.begin}, bytes_of(inner), again, rise_of(*forward)};
  }

  /// The step's peak with all of these, none of which is in another.
  std::size_t peak_with(const std::vector<Change>& changes) const {
    std::vector<std::size_t> away(step_.end - step_.begin + 1), back(away);  // bytes that go and come at each record
    for (const Change& c : changes) {
      away[c.away.begin - step_.begin] += c.bytes;
      back[std::max(c.away.begin, c.away.end) - step_.begin] += c.bytes;
    }
    std::vector<std::size_t> missing(levels_.size());  // behind each record
    std::size_t sum = 0, highest = 0;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      sum += away[i];
      sum -= back[i];
      missing[i] = sum;
      highest = std::max(highest, levels_[i] - sum);
    }
    for (const Change& c : changes)
      highest = std::max(highest, highest_between_kernels(c.again, missing) - c.bytes + c.rise);
    return highest;
  }

  /// What the module's forward took of the step's.
  double forward_time(const std::string& module) const {
    const std::uint64_t from = records_[step_.begin].time, to = records_[step_.end].time;
    const auto backward = span_of(runs_backward);
    const std::uint64_t all = records_[backward->begin].time - from;
    std::map<std::uint32_t, std::uint64_t> begun;  // by thread
    std::uint64_t taken = 0;
    for (const Mark& m : log_.marks) {
      if (m.kind != Mark::Kind::module || m.phase != Phase::forward || m.time < from || m.time > to) continue;
      if (log_.names[m.name] != module) continue;
      if (m.begins)
        begun[m.thread] = m.time;
      else if (begun.contains(m.thread))
        taken += m.time - begun[m.thread];
    }
    return all ? static_cast<double>(taken) / static_cast<double>(all) : 0;
  }

 private:
  void note_life(std::size_t i) {
    const Record& r = records_[i];
    const auto place = std::pair(r.event.segment, r.event.offset);
    switch (r.event.kind) {
      case EventKind::alloc:
        alive_[place] = lives_.size();
        lives_.push_back({.bytes = r.event.bytes, .born = i, .died = step_.end});
        return;
      case EventKind::hold:
      case EventKind::drop:
      case EventKind::free:
        if (const auto at = alive_.find(place); at != alive_.end()) {
          Life& life = lives_[at->second];
          life.needed_in.insert(r.by_module);
          life.is_saved |= r.event.kind == EventKind::hold;
          if (life.let_go == 0 && r.event.kind != EventKind::hold && runs_backward(r)) life.let_go = i;
          if (r.event.kind != EventKind::free) return;
          life.died = i;
          alive_.erase(at);
        }
        return;
      default:
        return;
    }
  }

  /// Of records behind the one that began the step.
  template <class Condition>
  std::optional<Range> span_of(const Condition& is_meant) const {
    std::optional<Range> span;
    for (std::size_t i = step_.begin + 1; i < step_.end; ++i)
      if (is_meant(records_[i]) && !moves(records_[i], log_)) span = Range{span ? span->begin : i, i + 1};
    return span;
  }

  std::vector<const Life*> inner_lives(const std::string& module, Range forward, Range backward) const {
    std::vector<const Life*> inner;
    for (const Life& life : lives_) {
      const bool lasts =
          forward.has(life.born) && life.is_saved && life.let_go >= backward.begin && life.died < step_.end;
      if (lasts && std::all_of(life.needed_in.begin(), life.needed_in.end(),
                               [&](NameId n) { return is_within(log_.names[n], module); }))
        inner.push_back(&life);
    }
    return inner;
  }

  static std::size_t bytes_of(const std::vector<const Life*>& lives) {
    std::size_t bytes = 0;
    for (const Life* life : lives) bytes += life->bytes;
    return bytes;
  }
  std::size_t level_behind(std::size_t i) const { return levels_[i - step_.begin]; }
  std::size_t highest_in(Range range) const {
    const auto at = levels_.begin() - static_cast<std::ptrdiff_t>(step_.begin);
    return *std::max_element(at + static_cast<std::ptrdiff_t>(range.begin),
                             at + static_cast<std::ptrdiff_t>(range.end));
  }
  /// The same but for what is missing at each record, and for workspaces that are taken in it: nothing else runs while
  /// a kernel has one.
  std::size_t highest_between_kernels(Range range, const std::vector<std::size_t>& missing) const {
    const auto level = [&](std::size_t i) { return level_behind(i) - missing[i - step_.begin]; };
    std::size_t workspaces = 0, highest = level(range.begin);
    for (std::size_t i = range.begin + 1; i < range.end; ++i) {
      const Event& e = records_[i].event;
      if (e.role == Role::workspace && e.kind == EventKind::alloc) workspaces += e.bytes;
      if (e.role == Role::workspace && e.kind == EventKind::free)
        workspaces -= std::min<std::size_t>(workspaces, e.bytes);
      highest = std::max(highest, level(i) - std::min(level(i), workspaces));
    }
    return highest;
  }
  /// How far above the level before it the range goes.
  std::size_t rise_of(Range range) const {
    return highest_in(range) - std::min(highest_in(range), level_behind(range.begin - 1));
  }

  /// When the module would run again: within the backward of the op that first lets go of one of them. Where in it, a
  /// recording does not tell.
  Range second_run(const std::vector<const Life*>& inner, Range backward) const {
    std::size_t last = backward.end;
    for (const Life* life : inner) last = std::min(last, life->let_go);
    std::size_t first = last;
    const auto is_of_op = [&](const Record& r) {
      return runs_backward(r) && r.by_module == records_[last].by_module && r.by_op == records_[last].by_op;
    };
    while (first > backward.begin && is_of_op(records_[first - 1])) --first;
    return {first - 1, last + 1};  // from the level before it on
  }

  const Log& log_;
  const DeviceLog& device_;
  const std::vector<Record>& records_;
  const Range step_;
  std::vector<std::size_t> levels_;  // behind each record of the step
  std::vector<Life> lives_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> alive_;  // lives, by place
};

/// The change that lowers the peak most beside those that are chosen; none where that is less than `least`.
const StepView::Change* best_beside(const std::vector<StepView::Change>& chosen,
                                    const std::vector<StepView::Change>& all, const StepView& view, std::size_t least) {
  const StepView::Change* best = nullptr;
  std::size_t lowest = view.peak_with(chosen);
  if (lowest < least) return nullptr;
  lowest -= least;
  for (const StepView::Change& c : all) {
    if (std::any_of(chosen.begin(), chosen.end(), [&](const auto& other) {
          return is_within(c.module, other.module) || is_within(other.module, c.module);
        }))
      continue;
    std::vector<StepView::Change> then = chosen;
    then.push_back(c);
    if (const std::size_t peak = view.peak_with(then); peak <= lowest) lowest = peak, best = &c;
  }
  return best;
}

Advice advice_of(const std::vector<StepView::Change>& changes, const StepView& view) {
  Advice a{.peak = view.peak(), .peak_then = view.peak_with(changes)};
  if (!view.is_timed()) a.forward_time.reset();
  for (const StepView::Change& c : changes) {
    a.modules.push_back(c.module);
    if (a.forward_time) *a.forward_time += view.forward_time(c.module);
  }
  return a;
}

}  // namespace

std::string Advice::text() const {
  const double part = static_cast<double>(peak - peak_then) / static_cast<double>(peak);
  const std::string time = forward_time ? fmt::format(", +{:.0f} % forward time", 100 * *forward_time) : "";
  return fmt::format("checkpoint {}: peak \u2212{} (\u2212{:.0f} %){}", fmt::join(modules, ", "),
                     format_bytes(peak - peak_then), 100 * part, time);
}

std::vector<Advice> advise(const Log& log, const DeviceLog& device) {
  const std::optional<Range> step = highest_step(device.records);
  if (!step) return {};
  const StepView view(log, device, *step);
  const std::size_t worthwhile = view.peak() / 100;
  std::vector<StepView::Change> changes, chosen;
  for (const std::string& module : view.modules())
    if (auto change = view.change_of(module)) changes.push_back(std::move(*change));
  std::vector<Advice> all;
  for (const StepView::Change& c : changes)
    if (Advice a = advice_of({c}, view); a.peak_then + worthwhile <= a.peak) all.push_back(std::move(a));
  while (const StepView::Change* best = best_beside(chosen, changes, view, worthwhile)) chosen.push_back(*best);
  if (chosen.size() > 1) all.push_back(advice_of(chosen, view));
  std::stable_sort(all.begin(), all.end(), [](const Advice& a, const Advice& b) {
    return std::pair(a.peak_then, a.forward_time) < std::pair(b.peak_then, b.forward_time);
  });
  return all;
}

std::vector<std::string> advice_texts(const Log& log) {
  constexpr std::size_t most = 5;
  std::vector<std::string> texts;
  for (const DeviceLog& d : log.devices) {
    const std::vector<Advice> all = advise(log, d);
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i) texts.push_back(d.name + ": " + all[i].text());
  }
  return texts;
}

}  // namespace bytetape::memory
