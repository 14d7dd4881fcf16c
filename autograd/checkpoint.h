#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/autograd/call_of_list.h"
#include "bytetape/core/tensor.h"

namespace bytetape {
namespace detail {

using ListFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::vector<Tensor> checkpoint(ListFunction fn, std::span<const Tensor> inputs);

/// What is kept of a function: itself, or where it is if it cannot be copied.
template <class F>
auto kept(F&& fn) {
  if constexpr (std::is_lvalue_reference_v<F> && !std::copy_constructible<std::remove_reference_t<F>>)
    return std::ref(fn);
  else
    return std::forward<F>(fn);
}

}  // namespace detail

/// fn(inputs...), a Tensor or a std::vector<Tensor>, without keeping for backward what fn makes on its way: it keeps
/// the inputs, and the first backward that needs something runs fn once more (torch.utils.checkpoint.checkpoint with
/// use_reentrant=False; Chen et al., "Training deep nets with sublinear memory cost", 2016).
///
///     Tensor forward(const Tensor& x) override { return tail(checkpoint(block, x)); }
///
/// Values and gradients are those of fn(inputs...) bit for bit: the graph is the same, so parameters used in fn get
/// their gradients, grad() and higher derivatives work, and inputs may be undefined or require no grad. The second run
/// draws the same random numbers from the generators, which stand where they stood, and takes place in the same
/// Autocast, default device, module and phase. Running statistics of batch_norm move once. Checkpoints may lie in each
/// other, in a captured step, and on meta devices.
///
/// fn is kept until then. An lvalue that cannot be copied, such as a module, is kept by reference: it must stay where
/// it is until backward, as must what fn captures by reference.
///
/// fn must do the same again: what changes from one run to the other (a mode of a module, a tensor that is overwritten)
/// must not matter. Found out is the overwriting of inputs, and of leaves that require grad and that an op on the tape
/// took: a parameter that an optimizer moved too early. Another tensor that may be overwritten is best an input. What
/// fn does beside its results is done twice, but for generators that it seeds or sets and hooks that it registers:
/// those of the first run stay.
///
/// Throws AutogradError from backward where the second run saves other tensors than the first or draws more numbers or
/// fewer, where such an input or leaf was overwritten, moved or converted since, and where fn itself runs backward.
/// What fn throws passes through; the graph stays as it was.
template <class F, std::derived_from<Tensor>... Inputs>
auto checkpoint(F&& fn, const Inputs&... inputs) {
  using Kept = decltype(detail::kept(std::forward<F>(fn)));
  using Result = std::invoke_result_t<Kept&, const Inputs&...>;
  static_assert(!std::is_void_v<Result>, "nothing is kept of a function that returns nothing");
  const std::vector<Tensor> list{inputs...};
  // Shared, as a std::function is copyable and fn may not be.
  return detail::result_of_list<Result>(detail::checkpoint(
      [fn = std::make_shared<Kept>(detail::kept(std::forward<F>(fn)))](std::span<const Tensor> x) {
        return detail::call_of_list<sizeof...(Inputs)>(*fn, x);
      },
      list));
}

}  // namespace bytetape
