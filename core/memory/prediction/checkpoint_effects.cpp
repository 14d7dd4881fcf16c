// A recording has each block's life in a step: when and in which module it was allocated, which nodes held it, and when
// it was freed. It also has the inputs and results of each call of a module. A checkpointed module frees the blocks
// that were allocated in it and that only its nodes hold, after its forward. It keeps its inputs. When its backward
// first needs a block, it runs forward again and allocates them again. Unknowns are assumed to be worst.
#include "bytetape/core/memory/prediction/checkpoint_effects.h"

#include <algorithm>

#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/replay.h"

namespace bytetape::memory {
namespace {

bool runs_backward(const Record& r) { return r.event.phase == Phase::backward; }

std::pair<std::uint32_t, std::uint64_t> place_of(const Record& r) { return {r.event.segment, r.event.offset}; }

}  // namespace

std::optional<Range> highest_training_step(const std::vector<Record>& records) {
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

RecordedStep::RecordedStep(const Log& log, const DeviceLog& device, Range step)
    : log_(log), records_(device.records), step_(step) {
  Replay replay;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> held;  // bytes at the start of the step, by place
  for (std::size_t i = 0; i < step.begin; ++i) {
    const Record& r = records_[i];
    replay.apply(r.event);
    if (r.event.kind == EventKind::alloc) held[place_of(r)] = r.event.bytes;
    if (r.event.kind == EventKind::free) held.erase(place_of(r));
  }
  for (const auto& [place, bytes] : held) {
    alive_[place] = lives_.size();
    lives_.push_back({.bytes = bytes, .born = step.begin, .died = step.end});
  }
  for (std::size_t i = step.begin; i < step.end; ++i) {
    replay.apply(records_[i].event);
    levels_.push_back(replay.allocated());
    if (levels_.back() > levels_[peak_at_]) peak_at_ = levels_.size() - 1;
    take(i);
  }
  check_calls();
}

// ---- the recorded step

void RecordedStep::take(std::size_t i) {
  const Record& r = records_[i];
  if (r.event.kind == EventKind::alloc) return make(i);
  const auto at = alive_.find(place_of(r));
  if (at == alive_.end()) return;
  Life& life = lives_[at->second];
  switch (r.event.kind) {
    case EventKind::hold:
      life.holds.push_back({.at = i, .by_module = r.by_module, .by_op = r.by_op, .dropped = step_.end});
      holds_.emplace_back(i, at->second);
      return;
    case EventKind::drop:
      return drop(life, i);
    case EventKind::free:
      free(life, i);
      alive_.erase(at);
      return;
    case EventKind::argument:
    case EventKind::result:
      return pass(i, at->second);
    default:
      return;
  }
}

void RecordedStep::make(std::size_t i) {
  const Record& r = records_[i];
  alive_[place_of(r)] = lives_.size();
  lives_.push_back({.bytes = r.event.bytes, .born = i, .died = step_.end, .by_module = r.by_module});
}

// Ends a hold. Nodes run backward in reverse, in the module and op of their forward, so the last matching hold ends
// first.
void RecordedStep::drop(Life& life, std::size_t i) {
  const Record& r = records_[i];
  const auto is_open = [&](const Hold& h) { return h.dropped == step_.end; };
  const auto is_its = [&](const Hold& h) { return is_open(h) && h.by_module == r.by_module && h.by_op == r.by_op; };
  auto at = std::find_if(life.holds.rbegin(), life.holds.rend(), is_its);
  if (at == life.holds.rend()) at = std::find_if(life.holds.rbegin(), life.holds.rend(), is_open);
  if (at == life.holds.rend()) return;
  at->dropped = i;
  at->in_backward = runs_backward(r);
}

void RecordedStep::free(Life& life, std::size_t i) {
  const Record& r = records_[i];
  life.died = i;
  life.freed_by = r.by_module;
  life.died_in_backward = runs_backward(r);
  for (Hold& h : life.holds) h.dropped = std::min(h.dropped, i);
  offloads_ |= name(r.by_op) == "evict" && r.event.role == Role::saved;
}

// A call begins with its first input, and its last result ends it.
void RecordedStep::pass(std::size_t i, std::size_t block) {
  const Record& r = records_[i];
  const std::string& module = name(r.by_module);
  std::vector<Call>& calls = calls_[module];
  const bool is_first = r.event.requested == 0, is_argument = r.event.kind == EventKind::argument;
  const bool is_open = !calls.empty() && calls.back().is_open();
  if (is_argument ? is_first == is_open : (is_first ? !is_open : calls.empty() || is_open)) torn_.insert(module);
  if (is_argument && is_first) calls.push_back({.forward = {i, i + 1}, .arguments = {}, .results = {}});
  if (calls.empty()) return;
  (is_argument ? calls.back().arguments : calls.back().results).push_back(block);
  calls.back().forward.end = i + 1;
}

void RecordedStep::check_calls() {
  for (const auto& [module, calls] : calls_)
    for (const Call& c : calls)
      if (c.is_open() || !is_in_one_piece(c, module)) torn_.insert(module);
}

/// Whether the call's thread ran only the module during the call, and no other thread ran the module.
bool RecordedStep::is_in_one_piece(const Call& call, const std::string& module) const {
  const std::uint32_t thread = records_[call.forward.begin].thread;
  for (std::size_t i = call.forward.begin; i < call.forward.end; ++i) {
    const Record& r = records_[i];
    const bool is_forward = r.event.phase == Phase::forward && is_within(name(r.by_module), module);
    if (is_forward != (r.thread == thread)) return false;
  }
  return true;
}

std::map<std::string, std::size_t> RecordedStep::saved_by_module() const {
  const std::uint64_t from = records_[step_.begin].time, to = records_[step_.end].time;
  std::map<std::string, std::size_t> saved;
  for (const Mark& m : log_.marks)
    if (m.kind == Mark::Kind::module && m.begins && m.phase == Phase::forward && from <= m.time && m.time <= to)
      if (m.name && !is_root_path(intern(name(m.name)))) saved[name(m.name)] = 0;
  for (const Life& life : lives_)
    if (const std::size_t at = step_.begin + peak_at_; !life.holds.empty() && life.born <= at && at < life.died)
      for (auto& [module, bytes] : saved)
        if (is_within(name(life.by_module), module)) bytes += life.bytes;
  return saved;
}

std::uint64_t RecordedStep::forward_time() const {
  std::uint64_t all = 0, since = records_[step_.begin].time;  // time of forwards that a backward followed
  bool is_forward = true;
  for (std::size_t i = step_.begin + 1; i < step_.end; ++i) {
    const bool was_forward =
        std::exchange(is_forward, !runs_backward(records_[i]) && records_[i].event.phase != Phase::optimizer);
    if (!was_forward) since = records_[i].time;  // until a forward begins
    if (was_forward && runs_backward(records_[i])) all += records_[i].time - since;
  }
  return all;
}

std::uint64_t RecordedStep::forward_time(const std::string& module) const {
  const std::uint64_t from = records_[step_.begin].time, to = records_[step_.end].time;
  std::uint64_t taken = 0;
  std::map<std::uint32_t, std::uint64_t> begun;  // by thread
  for (const Mark& m : log_.marks) {
    if (m.kind != Mark::Kind::module || m.phase != Phase::forward || m.time < from || m.time > to) continue;
    if (log_.names[m.name] != module) continue;
    if (m.begins)
      begun[m.thread] = m.time;
    else if (begun.contains(m.thread))
      taken += m.time - begun[m.thread];
  }
  return taken;
}

// ---- the effect of a checkpoint

std::vector<CheckpointEffect> RecordedStep::effects() const {
  std::vector<CheckpointEffect> all;
  for (const auto& [module, calls] : calls_)
    if (auto effect = is_root_path(intern(module)) ? std::nullopt : effect_of(module))
      all.push_back(std::move(*effect));
  return all;
}

std::optional<CheckpointEffect> RecordedStep::effect_of(const std::string& module) const {
  const auto at = calls_.find(module);
  if (at == calls_.end() || torn_.contains(module)) return std::nullopt;
  CheckpointEffect effect{.module = module, .calls = {}};
  for (const Call& c : at->second) effect.calls.push_back(effect_of(c, module));
  const bool frees =
      std::any_of(effect.calls.begin(), effect.calls.end(), [](const auto& c) { return !c.away.empty(); });
  return frees ? std::optional(std::move(effect)) : std::nullopt;
}

/// The holds of a block by nodes that the call recorded.
std::vector<RecordedStep::Hold> RecordedStep::holds_of(const Life& life, const Call& call,
                                                       const std::string& module) const {
  std::vector<Hold> own;
  for (const Hold& h : life.holds)
    if (call.forward.has(h.at) && is_within(name(h.by_module), module)) own.push_back(h);
  return own;
}

CheckpointEffect::OfCall RecordedStep::effect_of(const Call& call, const std::string& module) const {
  CheckpointEffect::OfCall effect;
  std::map<std::size_t, std::vector<Hold>> held;  // by block
  const auto from = std::lower_bound(holds_.begin(), holds_.end(), std::pair(call.forward.begin, std::size_t{0}));
  for (auto h = from; h != holds_.end() && h->first < call.forward.end; ++h)
    if (auto own = holds_of(lives_[h->second], call, module); !own.empty()) held[h->second] = std::move(own);
  if (held.empty()) return effect;  // no node needs a saved tensor

  // A recording does not say when an op's backward reads its saved tensors. It is no later than the first release.
  std::size_t first = step_.end, last = step_.end, last_of_inputs = step_.begin;
  for (const auto& [block, own] : held)
    for (const Hold& h : own) {
      if (!h.in_backward) continue;
      first = std::min(first, h.dropped);
      if (call.forward.has(lives_[block].born))
        last = std::min(last, h.dropped);
      else
        last_of_inputs = std::max(last_of_inputs, h.dropped);
    }
  if (last == step_.end) last = last_of_inputs;
  effect.again = first == step_.end ? Range{step_.end, step_.end} : Range{start_of_op(first) - 1, last + 1};
  effect.rise = rise_of(call.forward);
  effect.kept = call.arguments;
  for (const auto& [block, own] : held)
    if (call.forward.has(lives_[block].born)) note_made(effect, block, own, call, module);
  return effect;
}

/// Adds a block that the call allocates and its nodes hold to the effect. The caller may hold a result too, until
/// backward begins. From then on only nodes can free it.
void RecordedStep::note_made(CheckpointEffect::OfCall& effect, std::size_t block, const std::vector<Hold>& own,
                             const Call& call, const std::string& module) const {
  const Life& life = lives_[block];
  const bool nodes_free_it = life.died_in_backward && is_within(name(life.freed_by), module);
  std::size_t own_last = 0, others_last = nodes_free_it ? 0 : life.died;
  for (const Hold& h : own) own_last = std::max(own_last, h.dropped);
  for (const Hold& h : life.holds)
    if (std::none_of(own.begin(), own.end(), [&](const Hold& o) { return o.at == h.at; }))
      others_last = std::max(others_last, h.dropped);
  const bool is_let_go = std::any_of(own.begin(), own.end(), [](const Hold& h) { return h.in_backward; });
  if (others_last == 0 && is_let_go) {
    const bool is_result = std::find(call.results.begin(), call.results.end(), block) != call.results.end();
    effect.away.push_back({block, is_result ? start_of_backward(life.died) : call.forward.end});
  } else if (const std::size_t end = std::min(own_last, others_last); end > effect.again.begin) {
    effect.twice.push_back({block, {effect.again.begin, end}});
  }
}

std::size_t RecordedStep::start_of_op(std::size_t i) const {
  const Record& of = records_[i];
  const auto is_of_op = [&](const Record& r) {
    return runs_backward(r) && r.by_module == of.by_module && r.by_op == of.by_op;
  };
  while (i > step_.begin + 1 && is_of_op(records_[i - 1])) --i;
  return i;
}

std::size_t RecordedStep::start_of_backward(std::size_t i) const {
  while (i > step_.begin + 1 && runs_backward(records_[i - 1])) --i;
  return i;
}

/// The peak of the blocks that the recomputation allocates. It holds the blocks that nodes save until it ends.
std::size_t RecordedStep::rise_of(Range forward) const {
  const auto is_earlier = [](const Life& life, std::size_t i) { return life.born < i; };
  std::vector<std::pair<std::size_t, std::size_t>> frees;  // record and bytes
  const auto first = std::lower_bound(lives_.begin(), lives_.end(), forward.begin, is_earlier);
  const auto end = std::lower_bound(first, lives_.end(), forward.end, is_earlier);
  const auto is_own = [&](const Life& life) { return records_[life.born].thread == records_[forward.begin].thread; };
  for (auto life = first; life != end; ++life)
    if (is_own(*life) && life->holds.empty()) frees.emplace_back(life->died, life->bytes);
  std::sort(frees.begin(), frees.end());
  std::size_t now = 0, highest = 0;
  auto next = frees.begin();
  for (auto life = first; life != end; ++life) {
    if (!is_own(*life)) continue;
    for (; next != frees.end() && next->first < life->born; ++next) now -= next->second;
    highest = std::max(highest, now += life->bytes);
  }
  return highest;
}

std::size_t RecordedStep::peak_with(const std::vector<const CheckpointEffect*>& effects) const {
  std::vector<std::size_t> more(step_.end - step_.begin + 1), less(more);  // bytes from each record on
  const auto add = [&](Range when, std::size_t bytes) {
    if (when.begin >= when.end) return;
    more[when.begin - step_.begin] += bytes;
    less[when.end - step_.begin] += bytes;
  };
  std::map<std::size_t, std::size_t> kept_until;  // by block
  for (const CheckpointEffect* e : effects)
    for (const auto& call : e->calls)
      for (const std::size_t block : call.kept) kept_until[block] = std::max(kept_until[block], call.again.end);
  for (const auto& [block, until] : kept_until) add({lives_[block].died, until}, lives_[block].bytes);

  std::vector<std::size_t> away;  // freed bytes of each call when it is recomputed
  for (const CheckpointEffect* e : effects)
    for (const auto& call : e->calls) {
      away.push_back(0);
      for (const auto& [block, when] : call.twice) add(when, lives_[block].bytes);
      for (const auto& [block, from] : call.away) {
        const std::size_t bytes = lives_[block].bytes;
        const auto kept = kept_until.find(block);
        const std::size_t gone = kept == kept_until.end() ? from : std::max(from, kept->second);
        if (gone >= call.again.begin) {
          add({call.again.begin, gone}, bytes);
          continue;
        }
        less[gone - step_.begin] += bytes;
        more[call.again.begin - step_.begin] += bytes;
        away.back() += bytes;
      }
    }

  std::vector<std::size_t> levels(levels_.size());
  std::size_t added = 0, taken = 0, highest = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    added += more[i];
    taken += less[i];
    highest = std::max(highest, levels[i] = levels_[i] + added - taken);
  }
  std::size_t n = 0;
  for (const CheckpointEffect* e : effects)
    for (const auto& call : e->calls) {
      const std::size_t gone = away[n++];
      if (call.again.begin < step_.end)
        highest = std::max(highest, highest_between_kernels(call.again, levels) - gone + call.rise);
    }
  return highest;
}

std::vector<std::string> RecordedStep::whole_modules() const {
  std::vector<std::string> whole;
  for (const auto& [module, calls] : calls_)
    if (!torn_.contains(module) && !is_root_path(intern(module))) whole.push_back(module);
  return whole;
}

std::size_t RecordedStep::freed_at_end(const std::string& module) const {
  const auto at = calls_.find(module);
  if (at == calls_.end() || torn_.contains(module)) return 0;
  std::size_t freed = 0;
  for (const Call& call : at->second) {
    // Backward of the module needs the blocks again, so a checkpoint has recomputed them by then.
    const auto is_its_backward = [&](const Record& r) {
      return runs_backward(r) && is_within(name(r.by_module), module);
    };
    if (std::any_of(records_.begin() + static_cast<std::ptrdiff_t>(call.forward.end),
                    records_.begin() + static_cast<std::ptrdiff_t>(step_.end), is_its_backward))
      continue;
    const auto first = std::lower_bound(lives_.begin(), lives_.end(), call.forward.begin,
                                        [](const Life& life, std::size_t i) { return life.born < i; });
    auto block = static_cast<std::size_t>(first - lives_.begin());
    for (; block < lives_.size() && lives_[block].born < call.forward.end; ++block)
      if (is_freed_at_end(block, call, module)) freed += lives_[block].bytes;
  }
  return freed;
}

/// Whether the call allocated the block, it is not a result, and only nodes of the call hold it. The step's backward
/// has used none of them.
bool RecordedStep::is_freed_at_end(std::size_t block, const Call& call, const std::string& module) const {
  const Life& life = lives_[block];
  if (life.died != step_.end || life.holds.empty() || !call.forward.has(life.born)) return false;
  if (std::find(call.results.begin(), call.results.end(), block) != call.results.end()) return false;
  return holds_of(life, call, module).size() == life.holds.size() &&
         std::all_of(life.holds.begin(), life.holds.end(), [&](const Hold& h) { return h.dropped == step_.end; });
}

/// The highest level in a range, less the workspaces allocated in it, because nothing else runs while a kernel has one.
std::size_t RecordedStep::highest_between_kernels(Range range, const std::vector<std::size_t>& levels) const {
  const auto level = [&](std::size_t i) { return levels[i - step_.begin]; };
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

}  // namespace bytetape::memory
