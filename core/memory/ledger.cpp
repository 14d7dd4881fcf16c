#include "bytetape/core/memory/ledger.h"

namespace bytetape::memory {

void Ledger::log(EventKind kind, const Block& b, Role old_role, NameId old_module) {
  if (log_.size() >= capacity_) {
    ++dropped_;
    return;
  }
  log_.push_back({b.offset, b.size, b.requested, b.segment, step_, b.module, b.op, kind, b.role, old_role,
                  current_scope.phase, old_module});
}

void Ledger::move(std::vector<RoleBytes>& table, NameId id, Role role, std::ptrdiff_t bytes) {
  if (id >= table.size()) table.resize(id + 1);
  table[id][static_cast<std::size_t>(role)] += static_cast<std::size_t>(bytes);
}

StepSummary::PhaseFlow& Ledger::flow() { return open_.phases[static_cast<std::size_t>(current_scope.phase)]; }

void Ledger::note_peak() {
  const std::size_t now = stats_.allocated.current;
  if (now >= stats_.allocated.peak) {
    peak_is_now_ = true;
    for (std::size_t r = 0; r < role_count; ++r) stats_.at_peak[r] = stats_.by_role[r].current;
  }
  if (now > open_.peak) open_.peak = now;
  StepSummary::PhaseFlow& f = flow();
  if (now > f.peak) f.peak = now;
}

void Ledger::before_fall() {
  if (!peak_is_now_) return;
  by_module_at_peak_ = by_module_;
  by_op_at_peak_ = by_op_;
  peak_is_now_ = false;
}

void Ledger::on_segment(const Block& b, bool acquired) {
  if (acquired) {
    stats_.reserved.add(b.size);
    ++stats_.upstream_calls;
  } else {
    stats_.reserved.sub(b.size);
  }
  log(acquired ? EventKind::segment_alloc : EventKind::segment_free, b, b.role, b.module);
}

void Ledger::on_alloc(Block& b) {
  const auto size = static_cast<std::ptrdiff_t>(b.size);
  ++stats_.allocations;
  stats_.allocated.add(b.size);
  stats_.requested.add(b.requested);
  stats_.by_role[static_cast<std::size_t>(b.role)].add(b.size);
  move(by_module_, b.module, b.role, size);
  move(by_op_, b.op, b.role, size);
  flow().rose += b.size;
  note_peak();
  log(EventKind::alloc, b, b.role, b.module);
}

void Ledger::on_free(const Block& b) {
  before_fall();
  const auto size = static_cast<std::ptrdiff_t>(b.size);
  stats_.allocated.sub(b.size);
  stats_.requested.sub(b.requested);
  stats_.by_role[static_cast<std::size_t>(b.role)].sub(b.size);
  move(by_module_, b.module, b.role, -size);
  move(by_op_, b.op, b.role, -size);
  StepSummary::PhaseFlow& f = flow();
  f.fell += b.size;
  if (f.peak == 0) f.peak = stats_.allocated.current + b.size;
  log(EventKind::free, b, b.role, b.module);
}

void Ledger::on_retag(Block& b, Role role, NameId module) {
  const auto size = static_cast<std::ptrdiff_t>(b.size);
  const Role old_role = b.role;
  const NameId old_module = b.module;
  stats_.by_role[static_cast<std::size_t>(old_role)].sub(b.size);
  stats_.by_role[static_cast<std::size_t>(role)].add(b.size);
  move(by_module_, old_module, old_role, -size);
  move(by_module_, module, role, size);
  move(by_op_, b.op, old_role, -size);
  move(by_op_, b.op, role, size);
  b.role = role;
  b.module = module;
  note_peak();  // the level did not change, but who holds the peak may have
  log(EventKind::retag, b, old_role, old_module);
}

void Ledger::on_out_of_memory(std::size_t requested) {
  Block b;
  b.requested = requested;
  b.module = current_scope.module;
  b.op = current_scope.op;
  log(EventKind::out_of_memory, b, b.role, b.module);
}

void Ledger::begin_step(std::uint32_t step) {
  step_ = step;
  open_ = {};
  open_.step = step;
  open_.before = open_.peak = stats_.allocated.current;
  Block mark;
  mark.size = step;
  log(EventKind::step_begin, mark, mark.role, 0);
}

void Ledger::end_step() {
  Block mark;
  mark.size = step_;
  log(EventKind::step_end, mark, mark.role, 0);
  open_.after = stats_.allocated.current;
  if (steps_.size() < capacity_)
    steps_.push_back(open_);
  else
    ++dropped_;
  open_ = {};
  step_ = 0;
}

void Ledger::reset_peaks() {
  for (Watermark* w : {&stats_.allocated, &stats_.requested, &stats_.reserved}) w->peak = w->current;
  for (Watermark& w : stats_.by_role) w.peak = w.current;
  peak_is_now_ = true;
  for (std::size_t r = 0; r < role_count; ++r) stats_.at_peak[r] = stats_.by_role[r].current;
}

void Ledger::reset_log(std::size_t capacity) {
  log_.clear();
  steps_.clear();
  log_.shrink_to_fit();
  dropped_ = 0;
  capacity_ = capacity;
}

}  // namespace bytetape::memory
