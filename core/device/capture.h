#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bytetape/core/device/host_copies.h"
#include "bytetape/core/error.h"
#include "bytetape/core/random.h"
#include "bytetape/core/storage.h"
#include "bytetape/core/tensor.h"

namespace bytetape::memory {
class Pool;
}

/// \file
/// Hooks by which other folders inform a captured step (autograd/capture.h) about the work that it records.
namespace bytetape::detail {

/// Observes the storages that its thread uses, while it lives.
class StepWatch {
 public:
  StepWatch() : previous_(core_ambient.step_watch) { core_ambient.step_watch = this; }
  virtual ~StepWatch() { core_ambient.step_watch = previous_; }
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;
  virtual void used(Storage& s) = 0;
  virtual void written(Storage&) {}

 private:
  StepWatch* previous_;
};

/// Finds the GPU, or the meta device of one, that a step uses.
class DeviceFinder final : public StepWatch {
 public:
  void used(Storage& s) override;
  /// The only device whose work can be recorded. None if the step used none, or several.
  std::optional<Device> found() const { return several_ ? std::nullopt : device_; }

 private:
  std::optional<Device> device_;
  bool several_ = false;
};

/// Host values that change from step to step, such as learning rates. They are sent to the device before each replay.
class ReplayParams {
 public:
  explicit ReplayParams(Device device) : device_(device) {}
  /// Returns device memory of `bytes`, which `update` fills before each replay. `check` runs before all updates, and
  /// throws if a replay is impossible.
  /// Throws CaptureError if the capacity is exceeded.
  const void* add(
      std::size_t bytes, std::function<void(void*)> update, std::function<void()> check = [] {});
  void check() const;
  /// Asks all entries for new values. The host's counts advance by a step.
  void update();
  /// Sends the changed values to the device.
  void send();

 private:
  static constexpr std::size_t capacity = 8192;  // in words; a copy of this size does not make the host wait
  struct Entry {
    std::size_t first;  // index of its first word
    std::function<void(void*)> update;
    std::function<void()> check;
  };
  Device device_;
  Ref<Storage> block_;
  std::vector<std::uint64_t> words_, sent_;
  std::vector<Entry> entries_;
};

/// A set of storages in insertion order. They are released in that order, so that the program alone determines it.
class StorageList {
 public:
  void add(Storage& s) {
    if (known_.insert(&s).second) all_.emplace_back(&s);
  }
  bool contains(const Storage* s) const { return known_.contains(s); }
  std::vector<Ref<Storage>> take() { return std::move(all_); }

 private:
  std::unordered_set<const Storage*> known_;
  std::vector<Ref<Storage>> all_;
};

/// A step that is being recorded, on the thread that takes it.
class Capture final : public StepWatch {
 public:
  Capture(Device device, const memory::Pool& pool);
  ~Capture() override;

  void used(Storage& s) override;
  void written(Storage& s) override;
  /// Adds a tensor that the step reads instead of an input. The step must not write it.
  void add_stand_in(const Tensor& x) {
    x.storage().disallow_eviction();
    stand_ins_.insert(&x.storage());
  }
  bool is_stand_in(const Tensor& x) const { return stand_ins_.contains(&x.storage()); }
  /// Notes that the step reads or writes `shadow` instead of s.
  void uses_shadow(Storage& s, const Storage::Shadow& shadow);
  /// Returns the state that a replay draws from, after a generator at position `now` was used.
  PhiloxState drawn_from(const std::shared_ptr<Generator::Place>& place, const PhiloxState& now);
  /// Notes that the step replaces a leaf's gradient or, if `adds`, adds to it. Returns whether this is the leaf's first
  /// time.
  bool touches_grad(const Tensor& leaf, const Tensor& grad, bool adds) {
    const bool is_first = touched_.insert(leaf.impl()).second;
    if (is_first) leaves_.push_back({leaf, adds, grad});
    return is_first;
  }
  /// Adds a function that restores host state if the step fails.
  void on_failure(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  /// Adds a function that takes back the host's counts of this step. Recording is not a step; the replay that follows
  /// is.
  void on_end(std::function<void()> take_back) { take_back_.push_back(std::move(take_back)); }
  /// Whether the step allocated the block itself. Only then may it evict the bytes.
  bool owns(const memory::Block* block) const;
  /// The host memory that it offloads to.
  HostCopies& host_copies() { return host_copies_; }
  /// Calls f(leaf) for each leaf whose gradient the step touched.
  template <class F>
  void for_each_leaf(F&& f) const {
    for (const Leaf& l : leaves_) f(l.leaf);
  }
  ReplayParams& replay_params() { return *replay_params_; }
  Device device() const { return device_; }

  /// Ends a failed recording, and restores the host state of before the step.
  void undo();
  struct Leaf {
    Tensor leaf;
    bool adds;    // to an existing gradient
    Tensor grad;  // the existing gradient
  };
  /// Returns what a replay needs, and ends the recording.
  struct Result {
    std::unique_ptr<ReplayParams> replay_params;
    std::vector<Ref<Storage>> held, written;  // outside the pool
    std::vector<Ref<Storage>> updated;        // whose source the step has changed, so that gathered bytes are old
    struct AutocastCopy {
      Ref<Storage> of;
      Storage::Shadow shadow;
      bool is_written;  // by the step, together with the last write of `of`
    };
    std::vector<AutocastCopy> autocast_copies;
    std::vector<Leaf> leaves;
    HostCopies host_copies;
  };
  Result finish();

 private:
  struct Drawn {
    std::shared_ptr<Generator::Place> place;
    PhiloxState start;        // at recording; for a meta device the current state
    std::uint64_t count = 0;  // counters that a step uses
    const PhiloxState* replay_params = nullptr;
  };

  Device device_;
  const memory::Pool& pool_;
  std::unique_ptr<ReplayParams> replay_params_;
  HostCopies host_copies_;
  StorageList held_, written_, updated_;
  std::unordered_set<const Storage*> stand_ins_;
  std::vector<Result::AutocastCopy> autocast_copies_;
  std::vector<Leaf> leaves_;
  std::unordered_set<const TensorImpl*> touched_;  // addresses of the leaves
  std::vector<std::shared_ptr<Drawn>> drawn_;
  std::vector<std::function<void()>> undo_, take_back_;
};

[[noreturn]] void fail_in_capture(std::string_view what);
/// Throws CaptureError, saying that the step does `what` ("waits for the device"), if a step is being recorded.
inline void refuse_in_capture(std::string_view what) {
  if (core_ambient.capture) [[unlikely]]
    fail_in_capture(what);
}
/// Whether recorded work may have the block's address, other than the step that this thread records.
bool is_recorded(const memory::Block* block);

}  // namespace bytetape::detail
