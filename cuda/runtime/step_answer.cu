#include "bytetape/cuda/runtime/step_answer.h"

#include <atomic>
#include <utility>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/per_device.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

// Each stream of a device has a ring of words. A word is reused after `ring` later steps of the process.
constexpr unsigned ring = 256;
__device__ unsigned kept_words[memory::stream_count * ring];
__device__ unsigned skipped_word = 1;

/// The addresses of the words on a device.
struct Words {
  unsigned *kept = nullptr, *skipped = nullptr;
};
const Words& words_of(Device device) {
  return once_per_device(device.index, [device] {
    stream_of(device);  // makes the device current
    const OutsideRecording outside;
    Words words;
    check(cudaGetSymbolAddress(reinterpret_cast<void**>(&words.kept), kept_words));
    check(cudaGetSymbolAddress(reinterpret_cast<void**>(&words.skipped), skipped_word));
    return words;
  });
}

unsigned* next_word(Device device) {
  static std::atomic<unsigned> count{0};
  return words_of(device).kept + memory::ambient.scope.stream * ring +
         count.fetch_add(1, std::memory_order_relaxed) % ring;
}

}  // namespace

StepLaunches::StepLaunches(Device device, Kind kind, std::optional<std::uint64_t> faults_seen)
    : lock_(hold_faults(device)),
      device_(device),
      kind_(kind),
      first_{settled_pending(device), nullptr, next_word(device)} {
  if (faults_seen && *faults_seen != faults_thrown(device.index)) first_.from = words_of(device).skipped;
}

StepAnswer StepLaunches::next() {
  if (!std::exchange(is_first_, false)) return {first_.keep, nullptr, nullptr};
  const Clipped here{first_.keep, &streams_for_work(device_.index), ambient.faults_thrown};
  if (kind_ == Kind::clipping) ambient.clipped = here;
  if (kind_ == Kind::step) {
    const Clipped& last = ambient.clipped;
    if (last.streams == here.streams && last.faults_thrown == here.faults_thrown) first_.clipped = last.answer;
    ambient.clipped = {};
  }
  return first_;
}

}  // namespace bytetape::cuda
