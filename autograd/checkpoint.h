#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/autograd/call_of_list.h"
#include "bytetape/autograd/kept.h"
#include "bytetape/core/tensor.h"

namespace bytetape {
namespace detail {

using ListFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::vector<Tensor> checkpoint(ListFunction fn, std::span<const Tensor> inputs);

}  // namespace detail

/// Returns fn(inputs...) and recomputes its intermediate tensors in backward instead of saving them.
/// fn returns a Tensor or a std::vector<Tensor>. The inputs are saved. The first backward that needs a tensor runs fn
/// once more (torch.utils.checkpoint.checkpoint with use_reentrant=False; Chen et al., "Training deep nets with
/// sublinear memory cost", 2016).
///
///     Tensor forward(const Tensor& x) override { return tail(checkpoint(block, x)); }
///
/// Values and gradients have the same bits as those of fn(inputs...). Parameters used in fn get gradients, and higher
/// derivatives work. Inputs may be undefined or require no grad. Checkpoints can be nested, captured, and run on meta
/// devices.
///
/// The second run has the random numbers, Autocast, default device, module and phase of the first. It does not advance
/// the generators, and does not update running statistics of batch_norm again. Other side effects of fn happen twice.
/// Seeds that fn sets and hooks that it registers stay those of the first run.
///
/// fn is stored until backward. A module, or an lvalue that cannot be copied, is stored by reference. It must live
/// until backward, as must everything that fn captures by reference. fn must compute the same values in both runs. Pass
/// tensors that may be overwritten as inputs, because only inputs, and leaves that require grad, are checked.
///
/// Throws AutogradError from backward if the second run saves other tensors or draws another number of random numbers,
/// if an input or leaf was overwritten, moved or converted since the first run, or if fn runs backward. Exceptions from
/// fn pass through and leave the graph as it was.
template <class F, std::derived_from<Tensor>... Inputs>
auto checkpoint(F&& fn, const Inputs&... inputs) {
  using Kept = decltype(detail::kept(std::forward<F>(fn)));
  using Result = std::invoke_result_t<Kept&, const Inputs&...>;
  static_assert(!std::is_void_v<Result>, "nothing is kept of a function that returns nothing");
  const std::vector<Tensor> list{inputs...};
  // Shared because a std::function must be copyable, and fn may not be.
  return detail::result_of_list<Result>(detail::checkpoint(
      [fn = std::make_shared<Kept>(detail::kept(std::forward<F>(fn)))](std::span<const Tensor> x) {
        return detail::call_of_list<sizeof...(Inputs)>(*fn, x);
      },
      list));
}

}  // namespace bytetape
