#include "bytetape/cuda/streams.h"

#include "bytetape/cuda/launch.h"

namespace bytetape::cuda {

cudaError_t Streams::make(One& one) noexcept {
  const OutsideRecording outside;
  if (one.stream.load(std::memory_order_relaxed)) return cudaSuccess;
  if (!one.event)
    if (const cudaError_t status = cudaEventCreateWithFlags(&one.event, cudaEventDisableTiming)) return status;
  cudaStream_t made = nullptr;
  const cudaError_t status = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
  one.stream.store(made, std::memory_order_release);
  return status;
}

cudaStream_t Streams::make_or_throw(int number) {
  One& one = all_[static_cast<std::size_t>(number)];
  const std::lock_guard lock(mutex_);
  check(make(one));
  return one.stream;
}

bool Streams::is_only(int number) const {
  for (int i = 0; i < memory::stream_count; ++i)
    if (i != number && all_[static_cast<std::size_t>(i)].stream.load(std::memory_order_relaxed)) return false;
  return true;
}

// One event serves again and again: who waits for it waits for where it was when that was asked.
void Streams::order(int from, int to) noexcept {
  One &first = all_[static_cast<std::size_t>(from)], &second = all_[static_cast<std::size_t>(to)];
  const std::lock_guard lock(mutex_);
  if (!first.stream.load() || make(second) != cudaSuccess) return;  // what was never used has nothing to wait for
  if (cudaEventRecord(first.event, first.stream) == cudaSuccess) cudaStreamWaitEvent(second.stream, first.event, 0);
}

std::uint64_t Streams::mark(int number) {
  const OutsideRecording outside;
  const cudaStream_t stream = get(number);
  const std::lock_guard lock(marks_mutex_);
  while (!marks_.empty()) {
    const cudaError_t status = cudaEventQuery(marks_.front());
    if (status == cudaErrorNotReady) cudaGetLastError();  // no error, and not to be taken for the next launch's
    if (status != cudaSuccess) break;
    drop_first_mark();
  }
  if (spare_.empty()) check(cudaEventCreateWithFlags(&spare_.emplace_back(), cudaEventDisableTiming));
  check(cudaEventRecord(spare_.back(), stream));
  marks_.push_back(spare_.back());
  spare_.pop_back();
  return passed_ + marks_.size();
}

// All that were made before are waited for too, on whichever stream: as a rule they have long been passed.
void Streams::wait_for(std::uint64_t mark) noexcept {
  const OutsideRecording outside;
  const std::lock_guard lock(marks_mutex_);
  while (passed_ < mark && !marks_.empty()) {
    cudaEventSynchronize(marks_.front());  // what it fails of lasts, and the next launch says it
    drop_first_mark();
  }
}

void Streams::drop_first_mark() {
  spare_.push_back(marks_.front());
  marks_.pop_front();
  ++passed_;
}

void Streams::synchronize() const {
  for (const One& one : all_)
    if (const cudaStream_t stream = one.stream.load()) check(cudaStreamSynchronize(stream));
}

}  // namespace bytetape::cuda
