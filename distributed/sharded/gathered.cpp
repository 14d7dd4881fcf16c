#include "bytetape/distributed/sharded/gathered.h"

#include <algorithm>

#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape::dist {
namespace {

bool is_in_backward() { return memory::ambient.scope.phase == memory::Phase::backward; }

}  // namespace

void Gathered::note_gathered(Row& row) {
  order_.push_back(&row);
  bytes_ += row.bytes();
  if (&row == ahead_ || (used_.empty() && !is_in_backward())) return;  // the latter is a read by the host
  note_needed(row);
  gather_ahead();
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
  bytes_ -= std::erase(order_, &row) * row.bytes();
  if (ahead_ == &row) ahead_ = nullptr;
}

/// Frees rows that the running op does not use, the oldest first, until there is room. Backward still needs its rows.
bool Gathered::make_room(std::size_t bytes) {
  const auto is_used = [&](Row* row) { return std::ranges::find(used_, row) != used_.end(); };
  while (bytes_ + bytes > most_ && !order_.empty() && !is_in_backward() && !is_used(order_.front()))
    drop(*order_.front());
  return bytes_ + bytes <= most_;
}

void Gathered::enter_pass() {
  if (is_backward_ == is_in_backward()) return;
  (is_backward_ ? after_in_backward_ : after_in_forward_).erase(last_);  // nothing came after it
  is_backward_ = !is_backward_;
  last_ = ahead_ = nullptr;
  complete_.clear();
}

/// Notes that a row is used for which the program waited, or would have waited if it were not gathered ahead.
void Gathered::note_needed(Row& row) {
  enter_pass();
  (is_backward_ ? after_in_backward_ : after_in_forward_)[last_] = &row;
  last_ = &row;
}

/// Makes the stream wait for the row that was gathered ahead, and not for what the other stream does after it.
void Gathered::await_ahead() {
  if (!ahead_) return;
  ahead_->storage().before_read();
  note_needed(*ahead_);
  ahead_ = nullptr;
}

void Gathered::gather_ahead() {
  const Next& after = is_backward_ ? after_in_backward_ : after_in_forward_;
  const auto next = after.find(last_);
  if (ahead_ || next == after.end()) return;
  Row& row = *next->second;
  if (!row.storage().is_dropped() || complete_.contains(&row) || !make_room(row.bytes())) return;
  ahead_ = &row;
  const StreamScope beside(Stream(Stream::count - 1));
  try {
    row.storage().refill();
  } catch (...) {
    ahead_ = nullptr;
    throw;
  }
}

template <class F>
void Gathered::for_rows_of(const OpCall& call, const F& f) {
  for (const Operand& input : call.inputs) {
    const Tensor& x = input.tensor();
    const auto at = x.defined() ? rows_.find(&x.storage()) : rows_.end();
    if (at != rows_.end()) f(*at->second);
  }
}

void Gathered::begin(const OpCall& call) {
  if (call.caller || call.kind == OpKind::view) return;
  std::size_t needed = 0;
  used_.clear();
  for_rows_of(call, [&](Row& row) {
    if (std::ranges::find(used_, &row) != used_.end()) return;
    used_.push_back(&row);
    const auto place = std::ranges::find(order_, &row);
    if (place == order_.end())
      needed += row.bytes();
    else
      order_.splice(order_.end(), order_, place);  // the newest
  });
  if (used_.empty()) return;
  enter_pass();
  make_room(needed);
  while (std::ranges::find(used_, ahead_) != used_.end()) {
    await_ahead();
    gather_ahead();  // perhaps another row that the op uses
  }
}

void Gathered::end(const OpCall& call) noexcept {
  if (call.caller) return;
  used_.clear();
  if (call.definition.writes.size() == 0) return;
  for_rows_of(call, [](Row& row) { row.keep_written(); });
}

}  // namespace bytetape::dist
