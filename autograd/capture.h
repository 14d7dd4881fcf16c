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

/// Runs a step eagerly twice for one kind of inputs, then records it, then replays it.
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

  std::vector<Seen> seen_;  // kinds of inputs, latest last
  std::optional<Device> device_;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace detail

/// The function that capture() returns. It is called like the step.
template <class F>
class CapturedStep {
 public:
  explicit CapturedStep(F step) : step_(std::move(step)) {}

  /// Takes one step.
  /// Throws CaptureError, naming the op and the reason, if the step cannot be captured. Exceptions from the step pass
  /// through. After either, host and device state are as before the call.
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

/// Returns a function that replays a training step on a GPU without the step's host work (torch.cuda.graph).
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
/// The first two calls with inputs of the same shapes, dtypes and device run eagerly. The third such call is recorded
/// as a CUDA graph, and this call and all later ones replay the graph. Only the first kind of inputs that comes three
/// times is captured. On the CPU, and for inputs that differ from the recorded kind, the step runs eagerly. Each call
/// is exactly one step, with the same bits as without capture().
///
/// A replay runs the kernels of the recorded call, in its modes (NoGrad, Autocast, train() or eval()):
/// - Inputs are copied to dense memory. Kernels may sum dense inputs in another order than strided ones. Inputs must
///   not require grad or be written.
/// - Tensors that are not inputs are read at their recorded addresses. Numbers keep their recorded values.
/// - Learning rates, step counts and random numbers advance from step to step.
/// - A step that accumulates gradients runs eagerly if the gradients are not those of the recorded call.
/// - A replay throws CaptureError if a leaf whose gradient the step sets was moved or converted since.
/// - Results do not belong to an autograd graph, and the next call overwrites them.
///
/// The CapturedStep owns the memory of the step: the device's, and the pinned memory to which SaveOnCpu copies.
/// On a GPU's meta device, calls take the same memory and launch nothing. Only one thread may call it at a time.
template <class F>
CapturedStep<F> capture(F step) {
  return CapturedStep<F>(std::move(step));
}

}  // namespace bytetape
