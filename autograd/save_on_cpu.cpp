// Saved tensors are in a list, the newest first. The first `keep` bytes of the list stay on the device. Forward adds at
// the front and evicts from the back. Backward removes from the front and restores the next tensors.
//
// Tensors are copied to the host before they are evicted. A forward pass numbers the tensors that it saves, and notes
// which ones it evicted. As long as the next pass saves tensors of the same sizes, it copies those at once and no
// others. Without such a pass, tensors beyond half of `keep` are copied.
#include "bytetape/autograd/save_on_cpu.h"

#include <exception>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape {
namespace detail {

using memory::Role;

/// A tensor that a forward pass saved, and how often it was evicted. An op of forward may have restored it.
struct SavedOnce {
  std::size_t bytes;
  int evictions;
};

/// The tensors of the last forward pass under the same options object, in the order in which they were first saved.
class LastForward final : public RefCounted {
 public:
  struct Pass {
    std::size_t keep = 0, min_bytes = 0;
    Device device;
    std::vector<SavedOnce> saved;
  };
  Pass get() const {
    const std::lock_guard lock(mutex_);
    return pass_;
  }
  void set(Pass pass) {
    const std::lock_guard lock(mutex_);
    pass_ = std::move(pass);
  }

 private:
  mutable std::mutex mutex_;  // threads may share the options
  Pass pass_;
};

class NewestFirst final : public SavedWatch {
 public:
  NewestFirst(const SaveOnCpuOptions& options, Ref<LastForward> last)
      : keep_(options.keep), min_bytes_(options.min_bytes), last_(std::move(last)), known_(last_->get()) {
    is_known_ = known_.keep == keep_ && known_.min_bytes == min_bytes_;
    now_.keep = keep_;
    now_.min_bytes = min_bytes_;
  }

  bool wants(const Storage& s) const override {
    if (s.bytes() < min_bytes_ || !s.block() || s.pinned()) return false;
    return memory::pinned_for(s.device()) && may_leave(s);
  }

  // Outside the scope, in backward, nothing is evicted. A rule may already use the addresses of its other saved
  // tensors.
  void held(Storage& s) override {
    const std::lock_guard lock(mutex_);
    const bool is_forward = core_ambient.saved_watch == this;
    if (!s.is_evicted()) move_to_front(s, is_forward);
    if (is_forward) push_out();
  }

  // Evicts nothing, because an op that has begun may use the address of any tensor on the device.
  void restored(Storage& s) override {
    const std::lock_guard lock(mutex_);
    move_to_front(s, false);
  }

  // The tensor's own bytes still count in draw_in(), because they are freed after this call.
  void dropped(Storage& s) noexcept override {
    const std::lock_guard lock(mutex_);
    s.drop_copy();
    if (memory::ambient.scope.phase == memory::Phase::backward) draw_in();
    const auto at = places_.find(&s);
    newest_.erase(at->second.in_list);
    places_.erase(at);
  }

  /// Ends the forward pass, and passes on what is known of it.
  void end_forward() {
    const std::lock_guard lock(mutex_);
    if (!now_.saved.empty()) last_->set(std::exchange(now_, {}));
  }

 private:
  static constexpr std::size_t unnumbered = SaveOnCpuOptions::everything;
  struct Place {
    std::list<Storage*>::iterator in_list;
    std::size_t number = unnumbered;  // of the forward pass
  };

  static bool may_leave(const Storage& s) { return s.role() == Role::saved && !s.stays() && !is_recorded(s.block()); }

  void move_to_front(Storage& s, bool is_forward) {
    const auto [at, is_new] = places_.try_emplace(&s);
    if (is_new)
      at->second = {newest_.insert(newest_.begin(), &s), is_forward ? number(s) : unnumbered};
    else
      newest_.splice(newest_.begin(), newest_, at->second.in_list);
  }

  std::size_t number(const Storage& s) {
    const std::size_t n = now_.saved.size();
    is_known_ =
        is_known_ && n < known_.saved.size() && known_.saved[n].bytes == s.bytes() && known_.device == s.device();
    now_.device = s.device();
    now_.saved.push_back({s.bytes(), 0});
    return n;
  }

  // The two newest tensors always stay, because the running op may have computed one from the other. If host memory
  // runs out, the rest stays too.
  void push_out() {
    std::size_t bytes = 0, passed = 0;
    try {
      for (Storage* s : newest_) {
        if (s->is_evicted()) return;
        bytes += s->bytes();
        if (++passed <= 2 || !may_leave(*s)) continue;
        const std::size_t n = places_.at(s).number;
        if (bytes > keep_) {
          s->evict();
          if (n != unnumbered) ++now_.saved[n].evictions;
        } else if (will_leave(n, bytes)) {
          s->copy_out();
        }
      }
    } catch (const OutOfMemory&) {}
  }
  /// Whether tensor number n, the last of the newest `bytes`, will be evicted, or may be if nothing is known.
  bool will_leave(std::size_t n, std::size_t bytes) const {
    if (!is_known_ || n == unnumbered) return bytes > keep_ / 2;
    return now_.saved[n].evictions < known_.saved[n].evictions;
  }

  // If device memory runs out, a tensor stays on the host until it is used. That use then throws.
  void draw_in() noexcept {
    std::size_t bytes = 0;
    for (Storage* s : newest_) {
      bytes += s->bytes();
      if (bytes > keep_) return;
      if (!s->is_evicted()) continue;
      try {
        const StreamScope stream(Stream::for_copies());
        s->restore();
      } catch (...) { return; }
    }
  }

  const std::size_t keep_, min_bytes_;
  const Ref<LastForward> last_;
  const LastForward::Pass known_;
  std::mutex mutex_;  // guards the members below, because another thread may run backward
  bool is_known_;     // this pass has saved what `known_` saved, so far
  LastForward::Pass now_;
  std::list<Storage*> newest_;
  std::unordered_map<Storage*, Place> places_;
};

}  // namespace detail

OffloadHistory::OffloadHistory() : last_(make_ref<detail::LastForward>()) {}
OffloadHistory::~OffloadHistory() = default;

SaveOnCpu::SaveOnCpu(const SaveOnCpuOptions& options)
    : watch_(options.keep == SaveOnCpuOptions::everything
                 ? Ref<detail::NewestFirst>()
                 : make_ref<detail::NewestFirst>(options, options.history.last_)),
      outer_(std::exchange(detail::core_ambient.saved_watch, watch_.get())),
      exceptions_(std::uncaught_exceptions()) {}

// A pass that an exception ended says too little.
SaveOnCpu::~SaveOnCpu() {
  detail::core_ambient.saved_watch = outer_;
  if (watch_ && std::uncaught_exceptions() == exceptions_) watch_->end_forward();
}

}  // namespace bytetape
