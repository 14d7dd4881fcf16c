#include "bytetape/distributed/sharded/gathered.h"

#include <algorithm>

#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/core/ambient.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/setting.h"
#include "bytetape/distributed/gradients.h"

namespace bytetape::dist {
namespace {

bool has_phase_backward() { return memory::ambient.scope.phase == memory::Phase::backward; }
bool is_in_backward() { return has_phase_backward() || detail::runs_again(); }
bool contains(const std::vector<Row*>& rows, const Row* row) { return std::ranges::find(rows, row) != rows.end(); }

}  // namespace

void Gathered::note_gathered(Row& row) {
  order_.push_back(&row);
  if (!is_gathering_ && has_phase_backward()) note_needed(row);  // kernels of a rule read it; else the host does
}

void Gathered::complete(Row& row) {
  enter_pass();
  if (ahead_ == &row) await_ahead();
  drop(row);
  complete_.insert(&row);
  gather_ahead();
}

void Gathered::drop(Row& row) {
  row.drop();
  std::erase(order_, &row);
  if (ahead_ == &row) ahead_ = nullptr;
}

void Gathered::drop_all() {
  while (!order_.empty()) drop(*order_.front());
}

/// Returns the bytes of the gathered rows.
std::size_t Gathered::bytes() {
  std::erase_if(order_, [](const Row* row) { return row->storage().is_dropped(); });
  std::size_t sum = 0;
  for (const Row* row : order_) sum += row->bytes();
  return sum;
}

/// Frees rows that the running op does not use, the oldest first, until there is room. Backward still needs its rows.
void Gathered::make_room(std::size_t more) {
  while (bytes() + more > most_ && !order_.empty() && !has_phase_backward() && !contains(used_, order_.front()))
    drop(*order_.front());
}

/// Makes room for a row that is gathered ahead, if that is possible without rows that are needed before it.
bool Gathered::make_room_ahead(const Row& row) {
  std::size_t left = bytes() + row.bytes();
  std::vector<Row*> freed;
  for (Row* candidate : order_) {
    if (left <= most_ || has_phase_backward()) break;
    if (contains(used_, candidate) || stays_.contains(candidate)) continue;
    freed.push_back(candidate);
    left -= candidate->bytes();
  }
  if (left > most_) return false;
  freed_for_ahead_ = {freed.begin(), freed.end()};
  for (Row* each : freed) drop(*each);
  return true;
}

void Gathered::enter_capture() {
  detail::Capture* const capture = detail::core_ambient.capture;
  if (!capture || capture == capture_) return;
  drop_all();
  capture_ = capture;
  capture->on_end([known = weak_from_this()] {
    const auto alive = known.lock();
    if (!alive) return;
    alive->drop_all();
    alive->capture_ = nullptr;
  });
}

void Gathered::enter_pass() {
  if (is_backward_ == is_in_backward()) return;
  (is_backward_ ? after_in_backward_ : after_in_forward_).erase(last_);  // nothing came after it
  is_backward_ = !is_backward_;
  last_ = ahead_ = nullptr;
}

/// Notes that a row is used for which the program waited, or would have waited if it were not gathered ahead. The rows
/// of a checkpoint's second run are not noted: those that backward needs next are among them.
void Gathered::note_needed(Row& row) {
  enter_pass();
  if (detail::runs_again()) return;
  (is_backward_ ? after_in_backward_ : after_in_forward_)[last_] = &row;
  last_ = &row;
}

/// Makes the stream wait for the row that was gathered ahead, and not for what the other stream does after it.
void Gathered::await_ahead() {
  ahead_->storage().before_read();
  note_needed(*ahead_);
  ahead_ = nullptr;
}

void Gathered::gather(Row& row) {
  const detail::Setting gathering(is_gathering_, true);
  row.storage().refill();
}

void Gathered::gather_ahead() {
  const Next& after = is_backward_ ? after_in_backward_ : after_in_forward_;
  const auto next = after.find(last_);
  if (ahead_ || detail::runs_again() || next == after.end()) return;
  Row& row = *next->second;
  if (!row.storage().is_dropped() || (is_backward_ && complete_.contains(&row)) || !make_room_ahead(row)) return;
  const StreamScope beside(stream_of_exchanges());
  gather(row);
  ahead_ = &row;
}

/// Gathers a row for the running op. Returns whether the program waited for it, or would have.
bool Gathered::use(Row& row) {
  if (&row == ahead_) {
    await_ahead();
    return true;
  }
  if (!row.storage().is_dropped()) return false;
  if (ahead_ && freed_for_ahead_.contains(&row)) stays_.insert(&row);
  gather(row);
  note_needed(row);
  return true;
}

std::vector<Row*> Gathered::rows_of(const OpCall& call) const {
  std::vector<Row*> all;
  for (const Operand& input : call.inputs) {
    const Tensor& x = input.tensor();
    const auto at = x.defined() ? rows_.find(&x.storage()) : rows_.end();
    if (at != rows_.end() && !contains(all, at->second)) all.push_back(at->second);
  }
  return all;
}

void Gathered::begin(const OpCall& call) {
  if (call.caller || call.kind == OpKind::view) return;
  used_ = rows_of(call);
  if (used_.empty()) return;
  enter_capture();
  enter_pass();
  std::size_t needed = 0;
  for (Row* row : used_) {
    const auto place = std::ranges::find(order_, row);
    if (row->storage().is_dropped())
      needed += row->bytes();
    else if (place != order_.end())
      order_.splice(order_.end(), order_, place);  // the newest
  }
  make_room(needed);
  bool was_needed = false;
  for (Row* row : used_) was_needed |= use(*row);
  if (was_needed) gather_ahead();
}

void Gathered::end(const OpCall& call) noexcept {
  if (call.caller) return;
  used_.clear();
  if (call.definition.writes.size() == 0) return;
  try {
    for (Row* row : rows_of(call)) row->keep_written();
  } catch (const Error&) {  // out of memory: the next step, or drop(), keeps it
  }
}

}  // namespace bytetape::dist
