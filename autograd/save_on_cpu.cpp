// Saved tensors are in a list, the newest first. The first `keep` bytes of the list stay on the device. Tensors beyond
// half of `keep` are copied to the host ahead of time. Forward adds at the front and evicts from the back. Backward
// removes from the front and restores the next tensors.
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
    if (s.bytes() < options_.min_bytes || !s.block() || s.pinned()) return false;
    return memory::pinned_for(s.device()) && may_leave(s);
  }

  // Outside the scope, in backward, nothing is evicted. A rule may already use the addresses of its other saved
  // tensors.
  void held(Storage& s) override {
    const std::lock_guard lock(mutex_);
    if (!s.is_evicted()) move_to_front(s);
    if (detail::core_ambient.saved_watch == this) push_out();
  }

  // Evicts nothing, because an op that has begun may use the address of any tensor on the device.
  void restored(Storage& s) override {
    const std::lock_guard lock(mutex_);
    move_to_front(s);
  }

  // The tensor's own bytes still count in draw_in(), because they are freed after this call.
  void dropped(Storage& s) noexcept override {
    const std::lock_guard lock(mutex_);
    s.drop_copy();
    if (memory::ambient.scope.phase == memory::Phase::backward) draw_in();
    const auto at = places_.find(&s);
    newest_.erase(at->second);
    places_.erase(at);
  }

 private:
  static bool may_leave(const Storage& s) {
    return s.role() == Role::saved && !s.stays() && !detail::is_recorded(s.block());
  }

  void move_to_front(Storage& s) {
    const auto [at, is_new] = places_.try_emplace(&s);
    if (is_new)
      at->second = newest_.insert(newest_.begin(), &s);
    else
      newest_.splice(newest_.begin(), newest_, at->second);
  }

  // The two newest tensors always stay, because the running op may have computed one from the other. If host memory
  // runs out, the rest stays too.
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

  // If device memory runs out, a tensor stays on the host until it is used. That use then throws.
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
  std::mutex mutex_;  // guards the lists, because another thread may run backward
  std::list<Storage*> newest_;
  std::unordered_map<Storage*, std::list<Storage*>::iterator> places_;
};

}  // namespace

SaveOnCpu::SaveOnCpu(const SaveOnCpuOptions& options)
    : watch_(options.keep != SaveOnCpuOptions::everything ? make_ref<NewestFirst>(options) : Ref<NewestFirst>()),
      outer_(std::exchange(detail::core_ambient.saved_watch, watch_.get())) {}

SaveOnCpu::~SaveOnCpu() { detail::core_ambient.saved_watch = outer_; }

}  // namespace bytetape
