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

/// What makes training take less memory, and more time. A program that is given one does as it says:
///
///     struct Training {
///       Net net;
///       nn::MemoryOptions memory_options;
///       explicit Training(const nn::MemoryOptions& memory_options) : memory_options(memory_options) {
///       memory_options.apply(net); } void operator()() {
///         const SaveOnCpu offload(memory_options.saved);
///         ...
struct MemoryOptions {
  std::vector<std::string> checkpointed;  ///< modules, by their paths (checkpoint_modules)
  /// What is saved for backward stays on the device, unless told.
  SaveOnCpuOptions saved{.keep = SaveOnCpuOptions::everything};
  bool recompute = false;         ///< forward runs under Recompute; fit() leaves it as it is
  bool step_in_backward = false;  ///< optim::StepInBackward is there in place of zero_grad() and step(); likewise

  /// Has these modules of the model checkpointed, besides those that are. Throws ValueError where it has no such
  /// module.
  void apply(Module& model) const;
  /// These, and more; what goes to the host is as `more` says where it says so.
  MemoryOptions with(const MemoryOptions& more) const;
  bool offloads() const { return saved.keep != SaveOnCpuOptions::everything; }
};

/// What fit() may use.
struct FitOptions {
  bool checkpoint = true;
  bool offload = true;  ///< where the device has pinned memory
  /// How many sets of modules are tried that run less again than the first one found; each is a prediction.
  std::size_t tries = 256;
};

/// What fit() finds.
struct Fit {
  MemoryOptions memory_options;      ///< none where the program fits as it is; what was tried where none do
  std::size_t limit = 0;             ///< bytes
  memory::Prediction without, with;  ///< any memory options, and with these under the limit
  double recompute_fraction = 0;     ///< the fraction of forward activations, in bytes, that is recomputed
  /// Where it does not fit, the smallest limit found, in bytes, under which it does with these memory options; else 0.
  std::size_t enough = 0;

  bool fits() const { return with.fits(); }
  /// "fits into 512 MiB with checkpoints of layer1, layer2.0, which run 41 % of forward again: 498 MiB instead of 1.21
  /// GiB", or what is missing and which limit would be enough.
  std::string text() const;
};

}  // namespace bytetape::nn

namespace bytetape::detail {
nn::Fit fit(std::size_t limit, const nn::FitOptions& options, Device device,
            const std::function<memory::Prediction(const nn::MemoryOptions&, std::size_t limit)>& predict);
}  // namespace bytetape::detail

namespace bytetape::nn {

/// Chooses memory options under which predict(device, [&] { return fn(memory options); }) fits into `limit` bytes: none
/// where that is not needed; else checkpoints of as few modules as it finds, none of which can be left out; else what
/// is saved goes to the host, but for as much as fits, and where that is not enough, with checkpoints. From predictions
/// alone, so that the device need not be there; fn() calls memory options.apply() with its model, once.
///
///     const nn::Fit fit = nn::fit(Device::cuda(), std::size_t{8} << 30,
///                                 [](const nn::MemoryOptions& memory_options) { return Training(memory_options); });
///     std::cout << fit.text() << '\n';
///     Training training(fit.memory_options);
///
/// Predictions are made as `supposed` says, but for its limit. Throws ValueError where fn applies its memory options to
/// no model or to several, or `supposed` names a recording, and what memory::predict() throws.
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
