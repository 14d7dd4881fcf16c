#include "bytetape/cuda/runtime/lost.h"

#include <array>
#include <atomic>
#include <memory>

#include "bytetape/core/error.h"
#include "bytetape/cuda/runtime/per_device.h"

namespace bytetape::cuda {
namespace {

/// By device. Never destroyed, because other threads may read it until the process ends.
std::array<std::atomic<const std::string*>, most_devices> reasons;

}  // namespace

void note_lost(int index, const std::string& why) {
  auto reason = std::make_unique<const std::string>(why);
  const std::string* none = nullptr;
  if (reasons[static_cast<std::size_t>(index)].compare_exchange_strong(none, reason.get()))
    static_cast<void>(reason.release());
}

void throw_if_lost(int index) {
  const std::string* const why = reasons[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
  if (why) [[unlikely]]
    fail<DistributedError>("a collective was ended, and results of this step are lost: ", *why);
}

}  // namespace bytetape::cuda
