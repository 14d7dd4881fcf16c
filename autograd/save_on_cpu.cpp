// Saved tensors are in a list, the newest first. The first `keep` bytes of the list stay on the device. Forward adds at
// the front and evicts from the back. Backward removes from the front and restores the next tensors.
//
// Tensors are copied to the host before they are evicted. A forward pass numbers the tensors that it saves, and notes
// which ones it evicted. A later pass that saves tensors of the same sizes copies those at once, and no others. Without
// such a pass, tensors beyond half of `keep` are copied.
#include "bytetape/autograd/save_on_cpu.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/allocator/meta_allocators.h"
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

/// The tensors of a forward pass, in the order in which they were first saved.
struct ForwardPass {
  std::size_t keep = 0, min_bytes = 0;
  std::uint64_t prediction = 0;  // number of the predict() that it is a part of; 0 outside
  Device device;
  std::vector<SavedOnce> saved;

  bool is_alike(const ForwardPass& other) const {
    return keep == other.keep && min_bytes == other.min_bytes && prediction == other.prediction &&
           device == other.device && std::ranges::equal(saved, other.saved, {}, &SavedOnce::bytes, &SavedOnce::bytes);
  }
};

/// The last forward passes of each device under the same options object, the newest first. There are several, because
/// a smaller last batch, or a test between epochs, is a pass of its own.
class LastForward final : public RefCounted {
 public:
  std::vector<ForwardPass> get() const {
    const std::lock_guard lock(mutex_);
    return passes_;
  }
  void add(ForwardPass pass) {
    const std::lock_guard lock(mutex_);
    std::erase_if(passes_, [&](const ForwardPass& p) {
      return p.is_alike(pass) || (pass.prediction && p.prediction && p.prediction != pass.prediction);
    });
    passes_.insert(passes_.begin(), std::move(pass));
    constexpr int most = 4;  // for each device
    int same_device = 0;
    std::erase_if(passes_,
                  [&](const ForwardPass& p) { return p.device == passes_.front().device && ++same_device > most; });
  }

 private:
  mutable std::mutex mutex_;  // threads may share the options
  std::vector<ForwardPass> passes_;
};

/// Finds the tensors of a pass in an earlier one. Tensors that only the earlier pass has are skipped: a captured step's
/// argument, which is saved in plain calls alone.
class Follower {
 public:
  explicit Follower(ForwardPass pass) : pass_(std::move(pass)) {}
  /// Finds the next tensor. Returns false, from then on, if the earlier pass has no such tensor.
  bool follow(const Storage& s) {
    if (pass_.device != s.device()) next_ = pass_.saved.size();
    while (next_ < pass_.saved.size() && pass_.saved[next_].bytes != s.bytes()) ++next_;
    if (next_ >= pass_.saved.size()) return false;
    found_.push_back(next_++);
    return true;
  }
  /// How often tensor number n was evicted in the earlier pass.
  int evictions(std::size_t n) const { return pass_.saved[found_[n]].evictions; }

 private:
  ForwardPass pass_;
  std::size_t next_ = 0;
  std::vector<std::size_t> found_;  // by number
};

class NewestFirst final : public SavedWatch {
 public:
  NewestFirst(const SaveOnCpuOptions& options, Ref<LastForward> last)
      : keep_(options.keep), min_bytes_(options.min_bytes), last_(std::move(last)) {
    begin_forward();
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
    if (places_.empty() && memory::ambient.scope.phase == memory::Phase::backward) end_backward();
  }

  /// Called at the end of the scope. Later passes learn from this one if it is complete.
  void close(bool is_complete) {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    if (is_complete && !now_.saved.empty()) last_->add(std::exchange(now_, {}));
  }

 private:
  static constexpr std::size_t unnumbered = SaveOnCpuOptions::everything;
  struct Place {
    std::list<Storage*>::iterator in_list;
    std::size_t number = unnumbered;  // of the forward pass
  };

  static bool may_leave(const Storage& s) {
    const Capture* const capture = core_ambient.capture;  // a captured step evicts only memory of its own
    return s.role() == Role::saved && !s.stays() && !is_recorded(s.block()) && (!capture || capture->owns(s.block()));
  }

  void begin_forward() {
    now_ = {.keep = keep_, .min_bytes = min_bytes_, .prediction = prediction(), .device = {}, .saved = {}};
    followers_.clear();
    for (ForwardPass& pass : last_->get())
      if (pass.keep == keep_ && pass.min_bytes == min_bytes_ && pass.prediction == now_.prediction)
        followers_.emplace_back(std::move(pass));
  }
  static std::uint64_t prediction() {
    const memory::MetaAllocators* const predicted = memory::ambient.meta_allocators;
    return predicted ? predicted->number() : 0;
  }
  /// Begins another forward pass, because this scope may be around several. An exception says nothing about a pass.
  void end_backward() noexcept {
    if (!is_open_ || now_.saved.empty()) return;
    try {
      if (std::uncaught_exceptions() == 0) last_->add(std::exchange(now_, {}));
      begin_forward();
    } catch (const std::bad_alloc&) {
      now_.saved.clear();
      followers_.clear();
    }
  }

  void move_to_front(Storage& s, bool is_forward) {
    const auto [at, is_new] = places_.try_emplace(&s);
    if (is_new)
      at->second = {newest_.insert(newest_.begin(), &s), is_forward ? number(s) : unnumbered};
    else
      newest_.splice(newest_.begin(), newest_, at->second.in_list);
  }

  std::size_t number(const Storage& s) {
    std::erase_if(followers_, [&](Follower& f) { return !f.follow(s); });
    now_.device = s.device();
    now_.saved.push_back({s.bytes(), 0});
    return now_.saved.size() - 1;
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
    if (followers_.empty() || n == unnumbered) return bytes > keep_ / 2;
    return now_.saved[n].evictions < followers_.front().evictions(n);
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
  std::mutex mutex_;  // guards the members below, because another thread may run backward
  bool is_open_ = true;
  ForwardPass now_;
  std::vector<Follower> followers_;  // of earlier passes that have all that this one saved so far, the newest first
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

// Nothing is learned from a pass that an exception ended.
SaveOnCpu::~SaveOnCpu() {
  detail::core_ambient.saved_watch = outer_;
  if (watch_) watch_->close(std::uncaught_exceptions() == exceptions_);
}

}  // namespace bytetape
