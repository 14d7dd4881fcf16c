#pragma once
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "bytetape/autograd/save_on_cpu.h"
#include "bytetape/core/memory/predict.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Options that lower the memory of training at the cost of time.
///
/// The program applies the options that it is given:
///
///     struct Training {
///       Net net;
///       nn::MemoryOptions memory_options;
///       explicit Training(const nn::MemoryOptions& options) : memory_options(options) {
///         memory_options.apply(net);
///       }
///       void operator()() {
///         const SaveOnCpu offload(memory_options.saved);
///         ...
struct MemoryOptions {
  std::vector<std::string> checkpointed;  ///< paths of the modules to checkpoint; see checkpoint_modules()
  /// Paths of the modules that recompute cheap results; see recompute_modules(). "" is the model.
  std::vector<std::string> recomputing;
  /// Selects the saved tensors to offload. Default: none, all stay on the device.
  SaveOnCpuOptions saved{.keep = SaveOnCpuOptions::everything};
  bool recompute = false;         ///< run forward and the loss under Recompute; fit() does not set it
  bool step_in_backward = false;  ///< use optim::StepInBackward for zero_grad() and step(); fit() does not set it

  /// Turns on checkpoints for the modules of `model` in `checkpointed`, and recomputation of cheap results for those in
  /// `recomputing`. Modules that already have either keep it.
  /// Throws ValueError if the model has no module at one of the paths.
  void apply(Module& model) const;
  /// Returns the union of these options and `more`. `saved` is that of `more` if `more` offloads.
  MemoryOptions with(const MemoryOptions& more) const;
  bool offloads() const { return saved.keep != SaveOnCpuOptions::everything; }
};

/// Limits on the search of fit().
struct FitOptions {
  bool checkpoint = true;  ///< may checkpoint modules
  bool recompute = true;   ///< may let modules recompute cheap results
  bool offload = true;     ///< may offload saved tensors, if the device has pinned memory
  /// How many sets that may be cheaper are tried after the first ones that fit. Each try is a prediction.
  std::size_t tries = 256;
};

/// The result of fit().
struct Fit {
  MemoryOptions memory_options;      ///< empty if the program fits without any; the best tried ones if none fit
  std::size_t limit = 0;             ///< bytes
  memory::Prediction without, with;  ///< without memory options; with these ones and under the limit
  double recompute_fraction = 0;     ///< estimated time of all recomputation, divided by that of forward
  /// If the program does not fit: the smallest limit found, in bytes, under which it fits with these memory options.
  /// Else 0.
  std::size_t enough = 0;

  bool fits() const { return with.fits(); }
  /// Describes the result, or names the limit that would be enough: "fits into 512 MiB with checkpoints of layer1,
  /// layer2.0 (41 % of forward runs again): 498 MiB instead of 1.21 GiB".
  std::string text() const;
};

}  // namespace bytetape::nn

namespace bytetape::detail {
nn::Fit fit(std::size_t limit, const nn::FitOptions& options, Device device,
            const std::function<memory::Prediction(const nn::MemoryOptions&, std::size_t limit)>& predict);
}  // namespace bytetape::detail

namespace bytetape::nn {

/// Finds memory options with which predict(device, [&] { return fn(memory_options); }) fits into `limit` bytes.
///
/// Tries, in this order: no memory options; checkpoints of modules, and Recompute in modules, none of which can be left
/// out; offload of saved tensors, which keeps as many bytes on the device as fit; all of these together. Of sets that
/// fit, prefers the least recomputation, by time that is estimated from the work of the step's kernels. Recomputed
/// values have the same bits. All results come from predictions, so the device need not exist. fn() calls
/// memory_options.apply() once, with its model.
///
///     const nn::Fit fit = nn::fit(Device::cuda(), std::size_t{8} << 30,
///                                 [](const nn::MemoryOptions& memory_options) { return Training(memory_options); });
///     std::cout << fit.text() << '\n';
///     Training training(fit.memory_options);
///
/// `supposed` has the options of each prediction, except the limit.
///
/// Throws ValueError if fn applies its memory options to no model or to several, or if `supposed` names a recording.
/// Exceptions from memory::predict() pass through.
template <std::invocable<const MemoryOptions&> F>
Fit fit(Device device, std::size_t limit, F&& fn, const FitOptions& options = {},
        const memory::PredictOptions& supposed = {}) {
  return bytetape::detail::fit(limit, options, device, [&](const MemoryOptions& memory_options, std::size_t room) {
    check<ValueError>(supposed.recording.empty(), "fit: a recording is of one prediction: predict what was found");
    memory::PredictOptions with_limit = supposed;
    with_limit.limit = room;
    return memory::predict(
        device, [&] { return fn(memory_options); }, with_limit);
  });
}

}  // namespace bytetape::nn
