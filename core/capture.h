#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/pool.h"
#include "bytetape/core/random.h"
#include "bytetape/core/storage.h"
#include "bytetape/core/tensor.h"

/// \file
/// What a captured step (autograd/capture.h) needs from the rooms whose work it records.
namespace bytetape::detail {

/// Sees, while it lives, the storages that its thread works with.
class StepWatch {
 public:
  StepWatch() : previous_(step_watch) { step_watch = this; }
  virtual ~StepWatch() { step_watch = previous_; }
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;
  virtual void used(Storage& s) = 0;
  virtual void written(Storage&) {}

 private:
  StepWatch* previous_;
};

/// Finds out which GPU a step works on.
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
class Carried {
 public:
  explicit Carried(Device device) : device_(device) {}
  /// Device memory for `bytes`, which update() writes before each replay. Throws CaptureError past capacity.
  const void* add(std::size_t bytes, std::function<void(void*)> update);
  /// Asks for all anew.
  void update();
  /// Gives the device what it does not have yet.
  void send();

 private:
  static constexpr std::size_t capacity = 8192;  // words: what a copy to the device need not wait for
  struct Entry {
    std::size_t first;  // word
    std::function<void(void*)> update;
  };
  Device device_;
  Ref<Storage> block_;
  std::vector<std::uint64_t> words_, sent_;
  std::vector<Entry> entries_;
};

/// A step while it is recorded, by the thread that takes it.
class Capture final : public StepWatch {
 public:
  Capture(Device device, const memory::Pool& pool);
  ~Capture() override;

  void used(Storage& s) override;
  void written(Storage& s) override;
  /// A generator stood at `now`, of which a number was taken: where a replay finds it.
  PhiloxState drawn_from(const std::shared_ptr<Generator::Place>& place, const PhiloxState& now);
  /// The step sets a leaf's gradient: whether for the first time.
  bool assigned_grad(const Tensor& leaf) { return leaves_.try_emplace(leaf.impl(), leaf).second; }
  /// What must be undone on the host if the step fails.
  void on_failure(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  /// Takes back what the host has counted on: a recording is no step, the replay that follows it is.
  void on_end(std::function<void()> take_back) { take_back_.push_back(std::move(take_back)); }
  Carried& carried() { return *carried_; }

  /// Ends a recording that failed: the host stands where the step found it.
  void undo();
  /// What a replay needs; ends the recording.
  struct Result {
    std::unique_ptr<Carried> carried;
    std::vector<Ref<Storage>> held, written;  // outside the pool
    struct Lowered {
      Ref<Storage> of;
      Storage::Shadow shadow;
      bool is_written;  // by the step, along with `of`
    };
    std::vector<Lowered> lowered;  // of held: whose shadows the step uses
    std::vector<Tensor> leaves;
  };
  Result finish();

 private:
  struct Drawn {
    std::shared_ptr<Generator::Place> place;
    PhiloxState start;
    std::uint64_t count = 0;  // counters that a step takes
    const PhiloxState* carried = nullptr;
  };

  Device device_;
  const memory::Pool& pool_;
  std::unique_ptr<Carried> carried_;
  std::unordered_map<Storage*, Ref<Storage>> held_, written_;
  std::unordered_map<const TensorImpl*, Tensor> leaves_;
  std::vector<std::shared_ptr<Drawn>> drawn_;
  std::vector<std::function<void()>> undo_, take_back_;
};

/// The thread's; null where none is being recorded.
inline constinit thread_local Capture* capture_running = nullptr;

[[noreturn]] void fail_in_capture(std::string_view what);
/// Throws CaptureError, saying that the step `what` ("waits for the device"), where one is being recorded.
inline void refuse_in_capture(std::string_view what) {
  if (capture_running) [[unlikely]]
    fail_in_capture(what);
}

}  // namespace bytetape::detail
