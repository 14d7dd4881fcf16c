#include "bytetape/core/memory/ledger/ledger.h"

#include <algorithm>
#include <cassert>
#include <exception>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/thread_number.h"
#include "bytetape/core/memory/ledger/track.h"

namespace bytetape::memory {
namespace {

std::size_t index(Role r) { return static_cast<std::size_t>(r); }

}  // namespace

const char* to_string(EventKind k) {
  constexpr const char* text[event_kind_count] = {
      "segment_alloc", "segment_free", "alloc", "free", "retag", "step_begin", "step_end", "out_of_memory",
      "to_device",     "to_host",      "wait",  "hold", "drop",  "argument",   "result"};
  return text[static_cast<int>(k)];
}

bool is_only_recorded(EventKind k) { return k >= EventKind::hold; }

Ledger::Ledger() { reset_log(default_log_capacity); }

// ---- accounts

Ledger::Account& Ledger::account(std::vector<Account>& accounts, NameId id) {
  if (id >= accounts.size()) [[unlikely]]
    accounts.resize(id + 1);
  return accounts[id];
}

void Ledger::add(Account& a, Role role, std::size_t change) {
  if (!at_peak_now_ && a.peak != peak_) {
    a.at_peak = a.now;
    a.peak = peak_;
  }
  a.now[index(role)] += change;
  a.held.add(change);
}

// A fall is booked as the two's complement of its size: unsigned sums wrap to the right value.
void Ledger::book(NameId module, NameId op, Role role, std::size_t change) {
  add(account(modules_, module), role, change);
  add(account(ops_, op), role, change);
}

const RoleBytes& Ledger::at_peak(const Account& a) const { return a.peak == peak_ ? a.at_peak : a.now; }

std::vector<RoleBytes> Ledger::now(const std::vector<Account>& accounts) const {
  std::vector<RoleBytes> bytes;
  for (const Account& a : accounts) bytes.push_back(a.now);
  return bytes;
}

std::vector<RoleBytes> Ledger::at_peak(const std::vector<Account>& accounts) const {
  std::vector<RoleBytes> bytes;
  for (const Account& a : accounts) bytes.push_back(at_peak(a));
  return bytes;
}

std::vector<std::size_t> Ledger::most(const std::vector<Account>& accounts) const {
  std::vector<std::size_t> bytes;
  for (const Account& a : accounts) bytes.push_back(a.held.peak);
  return bytes;
}

Statistics Ledger::statistics() const {
  Statistics s = stats_;
  for (const Account& a : modules_)
    for (std::size_t r = 0; r < s.at_peak.size(); ++r) s.at_peak[r] += at_peak(a)[r];
  return s;
}

void Ledger::start_peak() {
  ++peak_;
  at_peak_now_ = true;
  stats_.peak_step = current().step;
  stats_.peak_phase = ambient.scope.phase;
}

// ---- events

// The contract, after every event of a debug build.
void Ledger::check_sums() const {
#ifndef NDEBUG
  std::size_t roles = 0;
  for (const Watermark& w : stats_.by_role) roles += w.current;
  assert(roles == stats_.allocated.current);
  assert(stats_.requested.current <= stats_.allocated.current);
  assert(stats_.allocated.current <= stats_.reserved.current);
#endif
}

Event Ledger::event(EventKind kind, const Block& b, Role old_role, NameId old_module, std::uint32_t step) const {
  return {b.offset, b.size, b.requested, b.segment,           step,      b.module, b.op,
          kind,     b.role, old_role,    ambient.scope.phase, old_module};
}

void Ledger::log(EventKind kind, const Block& b, Role old_role, NameId old_module, std::uint32_t step) {
  if (track_) [[unlikely]]
    track_->add(event(kind, b, old_role, old_module, step));
  if (log_.size() < capacity_)
    log_.push_back(event(kind, b, old_role, old_module, step));
  else
    ++dropped_;
  check_sums();
}

void Ledger::on_hold(const Block& b, bool begins) {
  if (!track_) [[likely]]
    return;
  track_->add(event(begins ? EventKind::hold : EventKind::drop, b, b.role, b.module, current().step));
}

void Ledger::on_passed(const Block& b, EventKind kind, std::uint64_t before) {
  if (!track_) return;
  Event e = event(kind, b, b.role, b.module, current().step);
  e.requested = before;
  track_->add(e);
}

void Ledger::on_found(const Block& first) {
  Block segment;
  segment.segment = first.segment;
  for (const Block* b = &first; b; b = b->after) segment.size += b->size;
  track_->add(event(EventKind::segment_alloc, segment, segment.role, 0, 0));
  for (const Block* b = &first; b; b = b->after) {
    if (!b->in_use) continue;
    track_->add(event(EventKind::alloc, *b, b->role, b->module, 0));
    for (std::uint32_t i = 0; i < b->savers; ++i) track_->add(event(EventKind::hold, *b, b->role, b->module, 0));
  }
}

void Ledger::on_segment(const Block& b, bool acquired) {
  if (acquired) {
    stats_.reserved.add(b.size);
    ++stats_.upstream_calls;
  } else {
    stats_.reserved.sub(b.size);
  }
  Block segment;  // who asked last is not who holds it
  segment.size = b.size;
  segment.segment = b.segment;
  log(acquired ? EventKind::segment_alloc : EventKind::segment_free, segment, segment.role, 0);
}

void Ledger::on_alloc(const Block& b) {
  ++stats_.allocations;
  const std::size_t peak = stats_.allocated.peak;
  stats_.allocated.add(b.size);
  stats_.requested.add(b.requested);
  stats_.by_role[index(b.role)].add(b.size);
  const std::size_t level = stats_.allocated.current;
  if (level > peak) start_peak();
  book(b.module, b.op, b.role, b.size);
  StepSummary::PhaseFlow& f = flow();
  f.rose += b.size;
  f.peak = std::max(f.peak, level);
  for (Open& o : open_) o.summary.peak = std::max(o.summary.peak, level);
  log(EventKind::alloc, b, b.role, b.module);
}

void Ledger::on_free(const Block& b) {
  at_peak_now_ = false;
  book(b.module, b.op, b.role, -b.size);
  StepSummary::PhaseFlow& f = flow();
  f.fell += b.size;
  f.peak = std::max(f.peak, stats_.allocated.current);
  stats_.allocated.sub(b.size);
  stats_.requested.sub(b.requested);
  stats_.by_role[index(b.role)].sub(b.size);
  log(EventKind::free, b, b.role, b.module);
}

// The level stays. While it is the peak, who holds the peak changes with it.
void Ledger::on_retag(Block& b, Role role, NameId module) {
  const Role old_role = b.role;
  const NameId old_module = b.module;
  stats_.by_role[index(old_role)].sub(b.size);
  stats_.by_role[index(role)].add(b.size);
  book(old_module, b.op, old_role, -b.size);
  book(module, b.op, role, b.size);
  b.role = role;
  b.module = module;
  log(EventKind::retag, b, old_role, old_module);
}

void Ledger::on_out_of_memory(std::size_t requested) {
  Block b;
  b.requested = requested;
  b.module = ambient.scope.module;
  b.op = ambient.scope.op;
  log(EventKind::out_of_memory, b, b.role, b.module);
}

// ---- steps

void Ledger::on_traffic(EventKind kind, std::size_t bytes) {
  if (kind == EventKind::wait) {
    ++stats_.waits;
  } else {
    Traffic& t = kind == EventKind::to_host ? stats_.to_host : stats_.to_device;
    ++t.count;
    t.bytes += bytes;
  }
  Block b;
  b.size = b.requested = bytes;
  b.module = ambient.scope.module;
  b.op = ambient.scope.op;
  log(kind, b, b.role, b.module);
}

void Ledger::log_mark(EventKind kind, std::uint32_t step) {
  Block mark;
  mark.size = step;
  log(kind, mark, mark.role, 0, step);
}

std::vector<Ledger::Open>::iterator Ledger::own_step() {
  return std::find_if(open_.begin(), open_.end(),
                      [thread = thread_number()](const Open& o) { return o.thread == thread; });
}

StepSummary& Ledger::current() {
  if (open_.size() == 1) [[likely]]
    return open_.front().summary;
  const auto own = own_step();
  return (own == open_.end() ? open_.begin() : own)->summary;
}

std::uint32_t Ledger::open_step() {
  const auto own = own_step();
  return own == open_.end() ? 0 : own->summary.step;
}

StepSummary Ledger::opened(std::uint32_t step) const {
  StepSummary s;
  s.step = step;
  s.before = s.peak = stats_.allocated.current;
  return s;
}

StepSummary Ledger::closed(const StepSummary& open) const {
  StepSummary s = open;
  s.after = stats_.allocated.current;
  return s;
}

void Ledger::keep(const StepSummary& open) {
  if (open.step == 0 && open.is_quiet()) return;
  if (steps_.size() < capacity_)
    steps_.push_back(closed(open));
  else
    ++dropped_steps_;
}

OpenStep Ledger::begin_step(std::uint32_t step) {
  end_step();
  last_step_ = step ? step : last_step_ + 1;
  const Open o{thread_number(), ++begun_, opened(last_step_)};
  if (open_.front().thread) {
    open_.push_back(o);
  } else {
    keep(open_.front().summary);
    open_.front() = o;
  }
  log_mark(EventKind::step_begin, last_step_);
  return {last_step_, o.id};
}

void Ledger::end_step(const OpenStep& step) {
  end(std::find_if(open_.begin(), open_.end(), [&](const Open& o) { return o.id == step.id; }));
}

void Ledger::end(std::vector<Open>::iterator step) {
  if (step == open_.end()) return;
  log_mark(EventKind::step_end, step->summary.step);
  keep(step->summary);
  open_.erase(step);
  if (open_.empty()) open_.push_back({.summary = opened(0)});
}

std::vector<StepSummary> Ledger::steps() const {
  std::vector<StepSummary> all = steps_;
  for (const Open& o : open_)
    if (o.thread || !o.summary.is_quiet()) all.push_back(closed(o.summary));
  return all;
}

// ---- starting over

void Ledger::reset_peaks() {
  for (Watermark* w : {&stats_.allocated, &stats_.requested, &stats_.reserved}) w->peak = w->current;
  for (Watermark& w : stats_.by_role) w.peak = w.current;
  for (std::vector<Account>* accounts : {&modules_, &ops_})
    for (Account& a : *accounts) a.held.peak = a.held.current;
  start_peak();
}

// All of it at once: a log that grows would allocate in the middle of a step. Untouched pages cost nothing.
void Ledger::reset_log(std::size_t capacity) {
  if (capacity != capacity_) {
    std::vector<Event> log;
    std::vector<StepSummary> steps;
    try {
      log.reserve(capacity);
      steps.reserve(capacity);
    } catch (const std::exception&) {  // bad_alloc, or length_error where it is more than any machine has
      fail<ValueError>("reset_log: no memory for ", capacity, " events of ", sizeof(Event),
                       " bytes and as many steps of ", sizeof(StepSummary));
    }
    log_.swap(log);
    steps_.swap(steps);
    capacity_ = capacity;
  }
  log_.clear();
  steps_.clear();
  dropped_ = dropped_steps_ = 0;
  last_step_ = 0;
  for (Open& o : open_) {
    o.summary = opened(o.summary.step);
    last_step_ = std::max(last_step_, o.summary.step);
  }
}

}  // namespace bytetape::memory
