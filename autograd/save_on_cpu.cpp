// What is saved lies in a list, the newest first, and the list is read from there: the first `keep` bytes are to be on
// the device, and what is behind half of them is copied out ahead. Forward adds at the front, and pushes the last ones
// out; backward takes from the front, and draws them in.
#include "bytetape/autograd/save_on_cpu.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape {
namespace {

using memory::Role;

class NewestFirst final : public detail::SavedWatch {
 public:
  explicit NewestFirst(const SaveOnCpuOptions& options) : options_(options) {}

  bool wants(const Storage& s) const override {
    if (s.bytes() < options_.min_bytes || !s.block() || s.pinned() || s.role() != Role::saved) return false;
    if (!memory::pinned_for(s.device())) return false;
    detail::refuse_in_capture("puts what it saves on the host (SaveOnCpu)");
    return !s.stays();
  }

  // Out of the scope, in a backward, nothing is pushed out: a rule has addresses when it asks for what else it saved.
  void held(Storage& s) override {
    const std::lock_guard lock(mutex_);
    if (!s.is_evicted()) move_to_front(s);
    if (detail::core_ambient.saved_watch == this) push_out();
  }

  // Nothing is pushed out for it: an op that has begun may have the address of what would be.
  void restored(Storage& s) override {
    const std::lock_guard lock(mutex_);
    move_to_front(s);
  }

  // Its own bytes still count, as they are freed behind this.
  void dropped(Storage& s) noexcept override {
    const std::lock_guard lock(mutex_);
    s.drop_copy();
    if (memory::ambient.scope.phase == memory::Phase::backward) draw_in();
    const auto at = places_.find(&s);
    newest_.erase(at->second);
    places_.erase(at);
  }

 private:
  static bool may_leave(const Storage& s) { return s.role() == Role::saved && !s.stays(); }

  void move_to_front(Storage& s) {
    const auto [at, is_new] = places_.try_emplace(&s);
    if (is_new)
      at->second = newest_.insert(newest_.begin(), &s);
    else
      newest_.splice(newest_.begin(), newest_, at->second);
  }

  // The two newest stay in any case: the op that runs may have made one of the other. What the host has no memory for
  // stays too.
  void push_out() {
    std::size_t bytes = 0, passed = 0;
    try {
      for (Storage* s : newest_) {
        if (s->is_evicted()) return;
        bytes += s->bytes();
        if (++passed <= 2 || bytes <= options_.keep / 2 || !may_leave(*s)) continue;
        bytes > options_.keep ? s->evict() : s->copy_out();
      }
    } catch (const OutOfMemory&) {}
  }

  // What there is no memory for comes back when it is used, and says so then.
  void draw_in() noexcept {
    std::size_t bytes = 0;
    for (Storage* s : newest_) {
      bytes += s->bytes();
      if (bytes > options_.keep) return;
      if (!s->is_evicted()) continue;
      try {
        const StreamScope stream(Stream::for_copies());
        s->restore();
      } catch (...) { return; }
    }
  }

  const SaveOnCpuOptions options_;
  std::mutex mutex_;  // of the lists: a graph may run backward on another thread
  std::list<Storage*> newest_;
  std::unordered_map<Storage*, std::list<Storage*>::iterator> places_;
};

}  // namespace

SaveOnCpu::SaveOnCpu(const SaveOnCpuOptions& options)
    : watch_(options.keep != SaveOnCpuOptions::everything ? make_ref<NewestFirst>(options) : Ref<NewestFirst>()),
      outer_(std::exchange(detail::core_ambient.saved_watch, watch_.get())) {}

SaveOnCpu::~SaveOnCpu() { detail::core_ambient.saved_watch = outer_; }

}  // namespace bytetape
