#include "bytetape/core/memory/recording/open_steps.h"

#include <algorithm>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/thread_number.h"

namespace bytetape::memory {
namespace {

/// Whether a step is of a GPU, or in a prediction, of a meta device that stands for one.
bool is_of_gpu(const OpenSteps::Open& o) {
  const Device device = o.device->device();
  return device.type != DeviceType::cpu && (!device.is_meta || ambient.meta_allocators);
}

}  // namespace

std::optional<OpenSteps::Open> OpenSteps::end(const Allocator& device, std::uint32_t number) {
  auto at = of(device, thread_number());
  if (at == open_.end() || at->number != number)  // another thread may end a step
    at = std::find_if(open_.begin(), open_.end(),
                      [&](const Open& o) { return o.device == &device && o.number == number; });
  if (at == open_.end()) return std::nullopt;
  const Open step = *at;
  open_.erase(at);
  return step;
}

void OpenSteps::forget(const Allocator& device) {
  std::erase_if(open_, [&](const Open& o) { return o.device == &device; });
}

const OpenSteps::Open* OpenSteps::of_this_thread() const {
  const std::uint64_t thread = thread_number();
  const Open* own = nullptr;
  for (const Open& o : open_)
    if (o.thread == thread && (!own || is_of_gpu(o) || !is_of_gpu(*own))) own = &o;
  if (own || open_.empty()) return own;
  const auto gpu = std::find_if(open_.begin(), open_.end(), is_of_gpu);
  return gpu == open_.end() ? &open_.front() : &*gpu;
}

bool OpenSteps::any_is_timed() const {
  return std::any_of(open_.begin(), open_.end(), [](const Open& o) { return o.is_timed; });
}

OpenSteps::Steps::iterator OpenSteps::of(const Allocator& device, std::uint64_t thread) {
  return std::find_if(open_.begin(), open_.end(),
                      [&](const Open& o) { return o.device == &device && o.thread == thread; });
}

}  // namespace bytetape::memory
