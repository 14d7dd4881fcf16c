#include "bytetape/core/memory/ledger/track.h"

#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include "bytetape/core/memory/allocator/meta_allocators.h"
#include "bytetape/core/memory/ledger/made_for.h"
#include "bytetape/core/memory/ledger/thread_number.h"

namespace bytetape::memory {
namespace {

std::uint32_t this_thread() { return static_cast<std::uint32_t>(thread_number()); }

Mark mark(Mark::Kind kind, bool begins, NameId name, Phase phase) {
  return {.thread = this_thread(), .name = name, .kind = kind, .begins = begins, .phase = phase};
}

}  // namespace

std::uint64_t now() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// ---- events

void Track::add(const Event& e) {
  const std::lock_guard lock(mutex_);
  constexpr std::size_t most = 4096;
  if (records_.capacity() == 0) records_.reserve(most);
  const NameId what = e.kind == EventKind::alloc ? ambient.made_for : 0;
  records_.push_back({e, now() - start_, ambient.scope.module, ambient.scope.op, what, this_thread()});
  if (records_.size() == most) sink_(std::exchange(records_, {}));
}

void Track::flush() {
  const std::lock_guard lock(mutex_);
  if (!records_.empty()) sink_(std::exchange(records_, {}));
}

// ---- scopes

void Marks::start(std::uint64_t at, const MetaAllocators* of) {
  const std::lock_guard lock(mutex_);
  of_ = of;
  start_ = at;
  marks_.clear();
}

bool Marks::counts_here() const { return ambient.meta_allocators == of_; }

void Marks::add(Mark m) {
  const std::lock_guard lock(mutex_);
  m.time = now() - start_;
  marks_.push_back(m);
}

std::vector<Mark> Marks::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(marks_, {});
}

Marks& marks() {
  static Marks* m = new Marks;
  return *m;
}

void note_scope(const ScopeIds& outer, const ScopeIds& inner, bool begins) {
  if (!marks().counts_here()) return;
  using Kind = Mark::Kind;
  std::array<Mark, 3> changed;
  std::size_t n = 0;
  if (outer.phase != inner.phase) changed[n++] = mark(Kind::phase, begins, 0, inner.phase);
  if (outer.module != inner.module) changed[n++] = mark(Kind::module, begins, inner.module, inner.phase);
  if (outer.op != inner.op) changed[n++] = mark(Kind::op, begins, inner.op, inner.phase);
  for (std::size_t i = 0; i < n; ++i) marks().add(changed[begins ? i : n - 1 - i]);
}

}  // namespace bytetape::memory
