#include "bytetape/autograd/capture.h"

#include <algorithm>
#include <iterator>

#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/check.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/shadow.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/memory/recording/captured_work.h"

namespace bytetape::detail {
namespace {

constexpr int calls_as_they_are = 2;  // libraries load, optimizers create their state, leaves get gradients

std::vector<Tensor> detached(std::vector<Tensor> outputs) {
  for (Tensor& y : outputs)
    if (y.defined()) y = y.detach();
  return outputs;
}

bool is_like(const Tensor& x, const Tensor& y) {
  return x.defined() && x.shape() == y.shape() && x.dtype() == y.dtype() && x.device() == y.device();
}

void check_input(const Tensor& x) {
  check_defined(x, "an input of the step");
  check<CaptureError>(!x.requires_grad(), "an input, ", describe(x),
                      ", requires grad: a captured step has no gradients of its inputs");
}

/// The graph of a meta device. A replay launches nothing.
struct Nothing final : DeviceGraph {
  void replay() override {}
};

std::unique_ptr<DeviceGraph> recording_of(Device device, const std::function<void()>& work) {
  if (!device.is_meta) return backend(device).record(device.index, work);
  work();
  return std::make_unique<Nothing>();
}

/// Copies x back if the step offloaded it, because it stays after the step.
void restore(const Tensor& x) {
  if (x.defined() && x.storage().is_evicted()) x.storage().before_read();
}

}  // namespace

struct StepRecorder::Recorded {
  explicit Recorded(Device device) : pool(memory::allocator(device)), count(device) {}

  memory::Pool pool;  // first, so that it is destroyed last: the members below may be in it
  std::vector<Tensor> inputs, outputs;
  Capture::Result host;
  std::vector<Tensor> grads;           // gradients of host.leaves after the recorded step
  std::vector<const Storage*> places;  // of host.leaves
  std::unique_ptr<DeviceGraph> work;
  memory::CapturedWork count;              // of `work`
  const Stream stream = current_stream();  // the stream of all replays

  /// Allocates inputs like the given ones. The recorded step reads them, and each replay copies its inputs into them.
  void take_in(std::span<const Tensor> given) {
    const memory::Op<"captured_step"> op;
    for (const Tensor& x : given) {
      check_input(x);
      inputs.push_back(empty_like(x));
      inputs.back().storage().set_role(memory::Role::input);
    }
  }
  /// Called after the recording. Notes the leaves' gradients and memory, and keeps the unused blocks of the device's
  /// and the host's pool for replays.
  void settle() {
    const memory::Op<"captured_step"> op;
    for (const auto& [leaf, adds, found] : host.leaves) {
      grads.push_back(leaf.grad());
      places.push_back(&leaf.storage());
    }
    pool.hold_unused();
    host.host_copies.hold_unused();
  }
  /// Whether a replay does the same as the step: the inputs have the recorded kind, and accumulating leaves have the
  /// recorded gradients.
  bool fits(std::span<const Tensor> given) const {
    return std::equal(given.begin(), given.end(), inputs.begin(), inputs.end(), is_like) &&
           std::all_of(host.leaves.begin(), host.leaves.end(),
                       [](const Capture::Leaf& l) { return !l.adds || l.leaf.grad().impl() == l.grad.impl(); });
  }
  void check_leaves() const {
    for (std::size_t i = 0; i < places.size(); ++i)
      check<CaptureError>(&host.leaves[i].leaf.storage() == places[i], "a leaf, ", describe(host.leaves[i].leaf),
                          ", was moved or converted since the step was captured: capture it again");
  }
  void copy_in(std::span<const Tensor> given) const {
    for (std::size_t i = 0; i < given.size(); ++i)
      if (!given[i].is_same(inputs[i])) copy_across(given[i], inputs[i]);
  }
  /// Orders a replay after the work of other streams on the memory that the graph reads and writes.
  void wait_for_other_streams() const {
    for (const Tensor& x : inputs) x.storage().before_read();
    for (const Ref<Storage>& s : host.held) s->before_read();
    for (const Ref<Storage>& s : host.written) s->before_write();
    for (const std::vector<Tensor>* left : {&outputs, &grads})
      for (const Tensor& x : *left)
        if (x.defined()) x.storage().before_write();
  }
  std::vector<Tensor> replay(std::span<const Tensor> given) {
    const memory::Op<"captured_step"> op;
    for (const Tensor& x : given) check_input(x);
    const StreamScope scope(stream);
    host.replay_params->check();
    check_leaves();
    copy_in(given);
    wait_for_other_streams();
    for (const auto& [of, shadow, is_written] : host.autocast_copies) restore_shadow(*of, shadow);
    host.replay_params->update();
    host.replay_params->send();
    work->replay();
    host.host_copies.note_replay();
    count.count_replay();
    for (const Ref<Storage>& s : host.written) s->bump_version();
    for (const Ref<Storage>& s : host.updated) {
      s->drop();
      s->bump_version();
    }
    for (const auto& [of, shadow, is_written] : host.autocast_copies)
      if (is_written) note_written_shadow(*of);
    for (const std::vector<Tensor>* left : {&outputs, &grads})
      for (const Tensor& x : *left)
        if (x.defined()) x.storage().bump_version();
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (const Tensor& leaf = host.leaves[i].leaf; leaf.grad().impl() != grads[i].impl()) assign_grad(leaf, grads[i]);
    return outputs;
  }
};

/// Counts calls with inputs of one kind, which is their shapes, dtypes and device.
struct StepRecorder::Seen {
  struct Kind {
    Shape shape;
    DType dtype;
    Device device;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  using Kinds = std::vector<std::optional<Kind>>;  // an undefined input has no kind
  Kinds inputs;
  int times = 1;

  static std::optional<Kind> kind_of(const Tensor& x) {
    return x.defined() ? std::optional(Kind{x.shape(), x.dtype(), x.device()}) : std::nullopt;
  }
  explicit Seen(std::span<const Tensor> given) { std::ranges::transform(given, std::back_inserter(inputs), kind_of); }
  bool is_of(std::span<const Tensor> given) const { return std::ranges::equal(given, inputs, {}, kind_of); }
};

StepRecorder::StepRecorder() = default;
StepRecorder::~StepRecorder() = default;
StepRecorder::StepRecorder(StepRecorder&&) noexcept = default;
StepRecorder& StepRecorder::operator=(StepRecorder&&) noexcept = default;

std::vector<Tensor> StepRecorder::operator()(std::span<const Tensor> inputs, const Step& step) {
  if (core_ambient.capture) return detached(step(inputs));  // part of the outer captured step
  if (recorded_) return recorded_->fits(inputs) ? recorded_->replay(inputs) : detached(step(inputs));
  return times_seen(inputs) < calls_as_they_are || !device_ ? watch(inputs, step) : record(inputs, step);
}

/// Returns the element of `seen` for the kind of these inputs.
template <class All>
static auto find_kind(All& seen, std::span<const Tensor> inputs) {
  return std::ranges::find_if(seen, [&](const auto& s) { return s.is_of(inputs); });
}

int StepRecorder::times_seen(std::span<const Tensor> inputs) const {
  const auto at = find_kind(seen_, inputs);
  return at == seen_.end() ? 0 : at->times;
}

std::vector<Tensor> StepRecorder::watch(std::span<const Tensor> inputs, const Step& step) {
  DeviceFinder finder;
  constexpr std::size_t most_kinds = 64;  // bounds the list if the inputs' shapes keep changing
  std::vector<Tensor> outputs = step(inputs);
  const auto at = find_kind(seen_, inputs);
  if (at != seen_.end()) {
    ++at->times;
    std::rotate(at, at + 1, seen_.end());
  } else {
    if (seen_.size() == most_kinds) seen_.erase(seen_.begin());
    seen_.emplace_back(inputs);
  }
  device_ = finder.found();
  return detached(std::move(outputs));
}

std::vector<Tensor> StepRecorder::record(std::span<const Tensor> inputs, const Step& step) {
  auto recorded = std::make_unique<Recorded>(*device_);
  const memory::PoolScope scope(recorded->pool);
  recorded->take_in(inputs);
  {
    Capture capture(*device_, recorded->pool);
    for (const Tensor& x : recorded->inputs) capture.add_stand_in(x);
    const auto work = [&] {
      recorded->outputs = detached(step(recorded->inputs));
      for (Tensor& y : recorded->outputs)  // the next call overwrites the inputs before it reads its arguments
        if (y.defined() && capture.is_stand_in(y)) y = clone(y);
      for (const Tensor& y : recorded->outputs) restore(y);
      capture.for_each_leaf([](const Tensor& leaf) { restore(leaf.grad()); });
    };
    try {
      const memory::CapturedWork::Scope counts(recorded->count);
      recorded->work = recording_of(*device_, work);
    } catch (...) {
      capture.undo();
      throw;
    }
    recorded->host = capture.finish();
  }
  recorded->settle();
  recorded_ = std::move(recorded);
  return recorded_->replay(inputs);
}

}  // namespace bytetape::detail
