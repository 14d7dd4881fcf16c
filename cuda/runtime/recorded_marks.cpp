#include "bytetape/cuda/runtime/recorded_marks.h"

#include <atomic>

#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

/// A mark has bit 63, then 31 bits with the number of its recording, then 32 bits with its own.
std::uint64_t first_of_next_recording() {
  static std::atomic<std::uint64_t> recordings{0};
  return std::uint64_t{1} << 63 | (++recordings & 0x7fffffff) << 32;
}

}  // namespace

RecordedMarks::RecordedMarks() : first_(first_of_next_recording()) {}

RecordedMarks::~RecordedMarks() {
  for (const Mark& m : marks_)
    if (m.event) cudaEventDestroy(m.event);
}

std::uint64_t RecordedMarks::mark(Streams& streams, int number) {
  const cudaStream_t stream = streams.get(number);
  marks_.push_back({nullptr, number});
  cudaEvent_t& event = marks_.back().event;
  {
    const OutsideRecording outside;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  check(cudaEventRecord(event, stream));
  return first_ + marks_.size() - 1;
}

void RecordedMarks::wait_mark(std::uint64_t mark, Streams& streams, int to) noexcept {
  const Mark& m = marks_[mark - first_];
  if (m.stream != to) streams.wait_mark(m.event, m.stream, to);
}

}  // namespace bytetape::cuda
