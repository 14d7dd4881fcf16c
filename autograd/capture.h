#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/autograd/call_of_list.h"
#include "bytetape/core/tensor.h"

namespace bytetape {
namespace detail {

/// A step's life: seen twice with inputs of a kind, then recorded with one of that, then replayed.
class StepRecorder {
 public:
  using Step = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
  StepRecorder();
  ~StepRecorder();
  StepRecorder(StepRecorder&&) noexcept;
  StepRecorder& operator=(StepRecorder&&) noexcept;

  std::vector<Tensor> operator()(std::span<const Tensor> inputs, const Step& step);
  bool is_captured() const { return recorded_ != nullptr; }

 private:
  struct Recorded;
  struct Seen;
  int times_seen(std::span<const Tensor> inputs) const;
  std::vector<Tensor> watch(std::span<const Tensor> inputs, const Step& step);
  std::vector<Tensor> record(std::span<const Tensor> inputs, const Step& step);

  std::vector<Seen> seen_;  // kinds of inputs, the latest at the end
  std::optional<Device> device_;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace detail

/// What capture() makes of a step: called like it.
template <class F>
class CapturedStep {
 public:
  explicit CapturedStep(F step) : step_(std::move(step)) {}

  /// Takes one step. Throws what the step throws, and CaptureError, saying which op and why, where it cannot be
  /// captured; then the host and the device stand where they stood before the call.
  template <std::same_as<Tensor>... Inputs>
  auto operator()(const Inputs&... inputs) {
    using Result = std::invoke_result_t<F&, const Inputs&...>;
    const std::vector<Tensor> list{inputs...};
    const auto step = [this](std::span<const Tensor> x) { return detail::call_of_list<sizeof...(Inputs)>(step_, x); };
    return detail::result_of_list<Result>(recorder_(list, step));
  }
  /// Whether the next call replays.
  bool is_captured() const { return recorder_.is_captured(); }

 private:
  F step_;
  detail::StepRecorder recorder_;
};

/// A step that a GPU takes again without the host's work on it: two calls of inputs of a kind run as they are,
/// the third of these is recorded as a CUDA graph, which it and all later ones run (torch.cuda.graph): of the kind,
/// shapes, dtypes and device, that has come thrice first, whatever a last batch has. Each call is exactly one step, bit
/// for bit the one that would have been taken without; on the CPU, and on inputs whose shape, dtype or device differ
/// from the recorded ones, the step runs as it is.
///
///     auto train = capture([&](const Tensor& x, const Tensor& target) {
///       optimizer.zero_grad();
///       Tensor loss = cross_entropy(model(x), target);
///       loss.backward();
///       optimizer.step();
///       return loss;
///     });
///     for (auto [x, target] : loader) loss = train(x, target);
///
/// A replay runs what the recorded call ran, in the modes of then (NoGrad, Autocast, train() or eval()): tensors that
/// the step finds by itself are read where they were, numbers are those of then, but for what optimizers and generators
/// carry from step to step (learning rates, counts, random numbers) and what the inputs hold, which are copied in and
/// must neither require grad nor be written. A step that adds to gradients runs as it is where it finds others than
/// the recorded one did. Results are outside the graph, and once the step is captured the next call writes over them.
/// Inputs are copied to dense memory: of what lies otherwise the kernels may be others, and add up in another order.
/// The step's memory is its own, taken from the device's allocator for as long as the CapturedStep lives; on the GPU's
/// meta device the calls take the same, and launch nothing. It is called on one thread at a time.
template <class F>
CapturedStep<F> capture(F step) {
  return CapturedStep<F>(std::move(step));
}

}  // namespace bytetape
