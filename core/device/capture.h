#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/core/random.h"
#include "bytetape/core/storage.h"
#include "bytetape/core/tensor.h"

namespace bytetape::memory {
class Pool;
}

/// \file
/// What a captured step (autograd/capture.h) needs from the rooms whose work it records.
namespace bytetape::detail {

/// Sees, while it lives, the storages that its thread works with.
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

/// Finds out which GPU, or meta twin of one, a step works on.
class DeviceFinder final : public StepWatch {
 public:
  void used(Storage& s) override;
  /// The one device whose work can be recorded; none where there was none or more than one.
  std::optional<Device> found() const { return several_ ? std::nullopt : device_; }

 private:
  std::optional<Device> device_;
  bool several_ = false;
};

/// What changes from step to step and is the host's: it goes to the device before each replay.
class ReplayParams {
 public:
  explicit ReplayParams(Device device) : device_(device) {}
  /// Device memory for `bytes`, which `update` writes before each replay; `check` runs before any update, and throws
  /// where there can be no replay. Throws CaptureError past capacity.
  const void* add(
      std::size_t bytes, std::function<void(void*)> update, std::function<void()> check = [] {});
  void check() const;
  /// Asks for all anew; the host counts a step.
  void update();
  /// Gives the device what it does not have yet.
  void send();

 private:
  static constexpr std::size_t capacity = 8192;  // words: what a copy to the device need not wait for
  struct Entry {
    std::size_t first;  // word
    std::function<void(void*)> update;
    std::function<void()> check;
  };
  Device device_;
  Ref<Storage> block_;
  std::vector<std::uint64_t> words_, sent_;
  std::vector<Entry> entries_;
};

/// Storages, each once and in the order in which they came: they are let go in that order, which the program alone
/// decides.
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

/// A step while it is recorded, by the thread that takes it.
class Capture final : public StepWatch {
 public:
  Capture(Device device, const memory::Pool& pool);
  ~Capture() override;

  void used(Storage& s) override;
  void written(Storage& s) override;
  /// A tensor that the step reads in an input's place, and must not write.
  void add_stand_in(const Tensor& x) { stand_ins_.insert(&x.storage()); }
  bool is_stand_in(const Tensor& x) const { return stand_ins_.contains(&x.storage()); }
  /// The step reads or writes `shadow` in place of s.
  void uses_shadow(Storage& s, const Storage::Shadow& shadow);
  /// A generator stood at `now`, of which a number was taken: where a replay finds it.
  PhiloxState drawn_from(const std::shared_ptr<Generator::Place>& place, const PhiloxState& now);
  /// The step replaces a leaf's gradient, or adds to what it is: whether it is the first to touch it.
  bool touches_grad(const Tensor& leaf, const Tensor& grad, bool adds) {
    const bool is_first = touched_.insert(leaf.impl()).second;
    if (is_first) leaves_.push_back({leaf, adds, grad});
    return is_first;
  }
  /// What must be undone on the host if the step fails.
  void on_failure(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  /// Takes back what the host has counted on: a recording is no step, the replay that follows it is.
  void on_end(std::function<void()> take_back) { take_back_.push_back(std::move(take_back)); }
  ReplayParams& replay_params() { return *replay_params_; }
  Device device() const { return device_; }

  /// Ends a recording that failed: the host stands where the step found it.
  void undo();
  struct Leaf {
    Tensor leaf;
    bool adds;    // to the gradient that it finds
    Tensor grad;  // the one that it found
  };
  /// What a replay needs; ends the recording.
  struct Result {
    std::unique_ptr<ReplayParams> replay_params;
    std::vector<Ref<Storage>> held, written;  // outside the pool
    struct AutocastCopy {
      Ref<Storage> of;
      Storage::Shadow shadow;
      bool is_written;  // by the step, along with the last write of `of`
    };
    std::vector<AutocastCopy> autocast_copies;
    std::vector<Leaf> leaves;
  };
  Result finish();

 private:
  struct Drawn {
    std::shared_ptr<Generator::Place> place;
    PhiloxState start;        // of the recording; where a meta device stands, which moves no generator
    std::uint64_t count = 0;  // counters that a step takes
    const PhiloxState* replay_params = nullptr;
  };

  Device device_;
  const memory::Pool& pool_;
  std::unique_ptr<ReplayParams> replay_params_;
  StorageList held_, written_;
  std::unordered_set<const Storage*> stand_ins_;
  std::vector<Result::AutocastCopy> autocast_copies_;
  std::vector<Leaf> leaves_;
  std::unordered_set<const TensorImpl*> touched_;  // of the leaves
  std::vector<std::shared_ptr<Drawn>> drawn_;
  std::vector<std::function<void()>> undo_, take_back_;
};

[[noreturn]] void fail_in_capture(std::string_view what);
/// Throws CaptureError, saying that the step `what` ("waits for the device"), where one is being recorded.
inline void refuse_in_capture(std::string_view what) {
  if (core_ambient.capture) [[unlikely]]
    fail_in_capture(what);
}

}  // namespace bytetape::detail
