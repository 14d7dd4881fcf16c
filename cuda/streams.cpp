#include "bytetape/cuda/streams.h"

#include <utility>

#include "bytetape/cuda/launch.h"

namespace bytetape::cuda {

namespace {
// One event serves again and again: who waits for it waits for where it was when that was asked.
cudaError_t wait_for(cudaStream_t first, cudaEvent_t event, cudaStream_t second) noexcept {
  const cudaError_t status = cudaEventRecord(event, first);
  return status ? status : cudaStreamWaitEvent(second, event, 0);
}
}  // namespace

Streams::~Streams() {
  cudaGraph_t graph = nullptr;
  if (recorder_ && cudaStreamEndCapture(recorder_->stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
  for (const One& one : all_) {
    if (const cudaStream_t stream = one.stream) cudaStreamDestroy(stream);
    if (one.event) cudaEventDestroy(one.event);
  }
  cudaGetLastError();  // of a recording that failed, and was reported
}

cudaError_t Streams::make(One& one) noexcept {
  const OutsideRecording outside;
  if (one.stream.load(std::memory_order_relaxed)) return cudaSuccess;
  if (!one.event)
    if (const cudaError_t status = cudaEventCreateWithFlags(&one.event, cudaEventDisableTiming)) return status;
  cudaStream_t made = nullptr;
  cudaError_t status = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
  if (recorder_ && status == cudaSuccess) status = wait_for(recorder_->stream, recorder_->event, made);
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

void Streams::order(int from, int to) noexcept {
  One &first = all_[static_cast<std::size_t>(from)], &second = all_[static_cast<std::size_t>(to)];
  const std::lock_guard lock(mutex_);
  if (!first.stream.load() || make(second) != cudaSuccess) return;  // what was never used has nothing to wait for
  wait_for(first.stream, first.event, second.stream);
}

void Streams::order_behind(cudaEvent_t event, int number) noexcept {
  One& one = all_[static_cast<std::size_t>(number)];
  const std::lock_guard lock(mutex_);
  if (make(one) == cudaSuccess) cudaStreamWaitEvent(one.stream, event, 0);
}

void Streams::join(int number) noexcept {
  for (int i = 0; i < memory::stream_count; ++i)
    if (i != number) order(i, number);
}

void Streams::fork(int number, std::uint32_t also) noexcept {
  const std::uint32_t all = used() | also;
  for (int i = 0; i < memory::stream_count; ++i)
    if (i != number && all >> i & 1) order(number, i);
}

std::uint32_t Streams::used() const {
  std::uint32_t all = 0;
  for (int i = 0; i < memory::stream_count; ++i)
    if (all_[static_cast<std::size_t>(i)].stream.load()) all |= std::uint32_t{1} << i;
  return all;
}

void Streams::synchronize() const {
  for (const One& one : all_)
    if (const cudaStream_t stream = one.stream.load()) check(cudaStreamSynchronize(stream));
}

void Streams::begin_recording(int number) {
  check(cudaStreamBeginCapture(get(number), cudaStreamCaptureModeThreadLocal));
  recorder_ = &all_[static_cast<std::size_t>(number)];
}

cudaGraph_t Streams::end_recording() {
  join(static_cast<int>(recorder_ - all_.data()));
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(std::exchange(recorder_, nullptr)->stream, &graph));
  return graph;
}

std::uint64_t Marks::mark(cudaStream_t stream) {
  const OutsideRecording outside;
  const std::lock_guard lock(mutex_);
  while (!marks_.empty()) {
    const cudaError_t status = cudaEventQuery(marks_.front());
    if (status == cudaErrorNotReady) cudaGetLastError();  // no error, and not to be taken for the next launch's
    if (status != cudaSuccess) break;
    drop_first();
  }
  if (spare_.empty()) {
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    spare_.push_back(made);
  }
  check(cudaEventRecord(spare_.back(), stream));
  marks_.push_back(spare_.back());
  spare_.pop_back();
  return passed_ + marks_.size();
}

// All that were made before are waited for too, on whichever stream: as a rule they have long been passed.
void Marks::wait_for(std::uint64_t mark) noexcept {
  const OutsideRecording outside;
  std::unique_lock lock(mutex_);
  while (passed_ < mark && !marks_.empty()) {
    const cudaEvent_t first = marks_.front();
    const std::uint64_t passed = passed_;
    lock.unlock();
    cudaEventSynchronize(first);  // what it fails of lasts, and the next launch says it
    lock.lock();
    if (passed_ == passed) drop_first();
  }
}

void Marks::order_behind(std::uint64_t mark, Streams& streams, int to) noexcept {
  const std::lock_guard lock(mutex_);
  if (mark > passed_) streams.order_behind(marks_[mark - passed_ - 1], to);
}

void Marks::drop_first() {
  spare_.push_back(marks_.front());
  marks_.pop_front();
  ++passed_;
}

}  // namespace bytetape::cuda
