#include "bytetape/nn/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/nn/ambient.h"
#include "bytetape/nn/fit_search.h"

namespace bytetape::nn {

using bytetape::detail::nn_ambient;
using memory::format_bytes;

void MemoryOptions::apply(Module& model) const {
  std::vector<std::string> checkpoints = checkpointed, recomputes = recomputing;
  for (const auto& [path, module] : model.named_modules()) {
    if (module->is_checkpointed()) checkpoints.push_back(path);
    if (module->is_recomputing()) recomputes.push_back(path);
    if (nn_ambient.seen_model && !path.empty()) nn_ambient.seen_model->modules.push_back(path);
  }
  if (nn_ambient.seen_model) ++nn_ambient.seen_model->models;
  checkpoint_modules(model, checkpoints);
  recompute_modules(model, recomputes);
}

MemoryOptions MemoryOptions::with(const MemoryOptions& more) const {
  MemoryOptions all = *this;
  all.checkpointed.insert(all.checkpointed.end(), more.checkpointed.begin(), more.checkpointed.end());
  all.recomputing.insert(all.recomputing.end(), more.recomputing.begin(), more.recomputing.end());
  if (more.offloads()) all.saved = more.saved;
  all.recompute |= more.recompute;
  all.step_in_backward |= more.step_in_backward;
  return all;
}

/// Returns "checkpoints of layer1, and Recompute in layer2", and nothing without either.
static std::string options_in_words(const MemoryOptions& o) {
  std::string words;
  if (!o.checkpointed.empty()) words = fmt::format("checkpoints of {}", fmt::join(o.checkpointed, ", "));
  if (o.recomputing.empty()) return words;
  std::vector<std::string> places = o.recomputing;
  for (std::string& place : places)
    if (place.empty()) place = "the model";
  return fmt::format("{}{}Recompute in {}", words, words.empty() ? "" : ", and ", fmt::join(places, ", "));
}

std::string Fit::text() const {
  const std::string before = format_bytes(without.peak_reserved()), room = format_bytes(limit);
  std::string how = options_in_words(memory_options);
  if (!how.empty()) how += fmt::format(" ({:.0f} % of forward runs again)", 100 * recompute_fraction);
  if (memory_options.offloads())
    how += fmt::format("{}all {}saved tensors on the host", how.empty() ? "" : ", and ",
                       memory_options.saved.keep ? "but " + format_bytes(memory_options.saved.keep) + " of " : "");
  if (fits() && how.empty()) return fmt::format("fits into {} as it is: {}", room, before);
  if (fits())
    return fmt::format("fits into {} with {}: {} instead of {}", room, how, format_bytes(with.peak_reserved()), before);
  const std::string least = fmt::format("{} ({} bytes)", format_bytes(enough), memory::format_exact(enough));
  if (how.empty())
    return fmt::format("does not fit into {}: it takes {}, and no recomputation helps; {} is enough", room, before,
                       least);
  return fmt::format("does not fit into {}: it takes {}, and more than the limit even with {}; {} is enough with that",
                     room, before, how, least);
}

}  // namespace bytetape::nn

namespace bytetape::detail {

nn::Fit fit(std::size_t limit, const nn::FitOptions& options, Device device, const nn::Predict& predict) {
  return nn::search(limit, options, device.type, memory::pinned_for(Device::meta(device)) != nullptr, predict);
}

}  // namespace bytetape::detail
