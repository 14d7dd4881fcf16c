#include "bytetape/cuda/runtime/streams.h"

#include <utility>

#include "bytetape/core/memory/ledger/host_wait.h"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

namespace {
constexpr std::uint32_t bit(int stream) { return std::uint32_t{1} << stream; }

// The event is reused. A stream waits for the point at which the event was last recorded.
cudaError_t wait_for(cudaStream_t first, cudaEvent_t event, cudaStream_t second) noexcept {
  const cudaError_t status = cudaEventRecord(event, first);
  return status ? status : cudaStreamWaitEvent(second, event, 0);
}

void wait_on_host(cudaEvent_t event) noexcept {
  const memory::HostWait wait;
  cudaEventSynchronize(event);
}
}  // namespace

Streams::~Streams() {
  cudaGraph_t graph = nullptr;
  if (recorder_ && cudaStreamEndCapture(recorder_->stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
  for (const One& one : all_) {
    if (const cudaStream_t stream = one.stream) cudaStreamDestroy(stream);
    if (one.event) cudaEventDestroy(one.event);
  }
  cudaGetLastError();  // clears the error of a failed recording, which was reported
}

cudaError_t Streams::make(One& one) noexcept {
  const OutsideRecording outside;
  if (one.stream.load(std::memory_order_relaxed)) return cudaSuccess;
  if (!one.event)
    if (const cudaError_t status = cudaEventCreateWithFlags(&one.event, cudaEventDisableTiming)) return status;
  cudaStream_t made = nullptr;
  cudaError_t status = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
  if (recorder_ && status == cudaSuccess) {
    status = wait_for(recorder_->stream, recorder_->event, made);
    const int from = number_of(*recorder_);
    note_waits(number_of(one), bit(from) | waited_for(from));
  }
  if (status != cudaSuccess) {
    if (made) cudaStreamDestroy(made);
    return status;
  }
  one.stream.store(made, std::memory_order_release);
  return cudaSuccess;
}

cudaStream_t Streams::make_or_throw(int number) {
  One& one = all_[static_cast<std::size_t>(number)];
  check(failure_.exchange(cudaSuccess));
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
  if (!first.stream.load()) return;  // an unused stream has no work to wait for
  const cudaError_t made = make(second);
  settle(made ? made : wait_for(first.stream, first.event, second.stream), from, to);
}

void Streams::wait_mark(cudaEvent_t event, int from, int number) noexcept {
  One& one = all_[static_cast<std::size_t>(number)];
  const std::lock_guard lock(mutex_);
  const cudaError_t made = make(one);
  settle(made ? made : cudaStreamWaitEvent(one.stream, event, 0), from, number);
}

void Streams::settle(cudaError_t status, int first, int second) noexcept {
  if (status != cudaSuccess) [[unlikely]] {
    cudaGetLastError();  // reported below, not by the next launch
    const OutsideRecording outside;
    const memory::HostWait wait;
    status = cudaStreamSynchronize(all_[static_cast<std::size_t>(first)].stream);
    if (status != cudaSuccess) {
      cudaGetLastError();
      failure_ = status;
    }
  }
  note_waits(second, bit(first) | waited_for(first));
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

void Streams::synchronize() {
  check(failure_.exchange(cudaSuccess));
  const memory::HostWait wait;
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
  const cudaError_t ended = cudaStreamEndCapture(std::exchange(recorder_, nullptr)->stream, &graph);
  const cudaError_t ordered = failure_.exchange(cudaSuccess);
  if (ended == cudaSuccess && ordered != cudaSuccess) cudaGraphDestroy(graph);
  check(ended);
  check(ordered);
  return graph;
}

std::uint64_t Marks::mark(Streams& streams, int number) {
  const cudaStream_t stream = streams.get(number);
  const OutsideRecording outside;
  const std::lock_guard lock(mutex_);
  while (!marks_.empty()) {
    const cudaError_t status = cudaEventQuery(marks_.front().event);
    if (status == cudaErrorNotReady) cudaGetLastError();  // not an error, and must not be reported by the next launch
    if (status != cudaSuccess) break;
    drop_first();
  }
  if (spare_.empty()) {
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    spare_.push_back(made);
  }
  check(cudaEventRecord(spare_.back(), stream));
  marks_.push_back({spare_.back(), number});
  spare_.pop_back();
  return passed_ + marks_.size();
}

// Also waits for all earlier marks, on any stream. Usually they have been passed long before.
void Marks::wait_for(std::uint64_t mark) noexcept {
  const OutsideRecording outside;
  std::unique_lock lock(mutex_);
  while (passed_ < mark && !marks_.empty()) {
    const cudaEvent_t first = marks_.front().event;
    const std::uint64_t passed = passed_;
    lock.unlock();
    wait_on_host(first);  // failures last, and the next launch reports them
    lock.lock();
    if (passed_ == passed) drop_first();
  }
}

void Marks::wait_mark(std::uint64_t mark, Streams& streams, int to) noexcept {
  const std::lock_guard lock(mutex_);
  if (mark <= passed_) return;
  const Mark& m = marks_[mark - passed_ - 1];
  streams.wait_mark(m.event, m.stream, to);
}

void Marks::drop_first() {
  spare_.push_back(marks_.front().event);
  marks_.pop_front();
  ++passed_;
}

}  // namespace bytetape::cuda
