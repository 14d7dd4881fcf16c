#include "bytetape/core/device/external.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/interop.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape {
namespace {

/// Runs functions on a thread of its own, each after a wait. A destructor of a tensor must not wait for the GPU, and
/// another library's function must not run within the driver's callbacks.
class Releases {
 public:
  static Releases& instance() {
    static auto* all = new Releases;  // never destroyed: tensors in static storage may outlive it otherwise
    return *all;
  }

  /// Does nothing after the last finish().
  void add(std::function<void()> wait, std::function<void()> release) {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    if (!is_running_) std::thread([this] { run(); }).detach();  // first, because the caller releases if it throws
    is_running_ = true;
    waiting_.push_back({std::move(wait), std::move(release)});
    changed_.notify_all();
  }

  /// Waits for all releases so far. If `is_last`, later ones do nothing.
  void finish(bool is_last) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.empty() && !is_releasing_; });
    has_ended_ = has_ended_ || is_last;
  }

 private:
  struct Waiting {
    std::function<void()> wait, release;
  };

  [[noreturn]] void run() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      Waiting first = std::move(waiting_.front());
      waiting_.pop_front();
      is_releasing_ = true;
      lock.unlock();
      first.wait();
      first.release();
      first = {};  // a tensor that it holds may end, whose release is added here
      lock.lock();
      is_releasing_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool is_running_ = false, is_releasing_ = false, has_ended_ = false;
};

}  // namespace

ExternalMemory::ExternalMemory(const void* data, std::size_t bytes, Device device, std::function<void()> release,
                               bool is_read_only)
    : ranges_(&memory::allocator(device).external_ranges()),
      data_(data),
      bytes_(bytes),
      release_(std::move(release)),
      device_(device),
      is_read_only_(is_read_only) {
  ranges_->add(data, bytes);
}

ExternalMemory::~ExternalMemory() { ranges_->remove(data_, bytes_); }

void ExternalMemory::release(std::uint32_t streams, memory::StreamId home) noexcept {
  if (!release_) return;
  const Backend& its = backend(device_);
  if (!its.interop) return release_();
  const int index = device_.index;
  const CurrentDevice current(device_);
  const memory::StreamId around = std::exchange(memory::ambient.scope.stream, home);
  try {
    void* const last = its.interop->stream_handle(index, home);
    for (int other = 0; other < memory::stream_count; ++other)
      if (other != home && streams >> other & 1)
        its.interop->order(index, its.interop->stream_handle(index, other), last);
    const auto wait = [&its, index, mark = its.mark(index)] { its.wait_host(index, mark); };
    Releases::instance().add(wait, release_);
  } catch (const std::exception&) {
    its.interop->wait_for_all(index);
    release_();
  }
  memory::ambient.scope.stream = around;
}

void finish_releases() { Releases::instance().finish(/*is_last=*/false); }
void detail::end_releases() { Releases::instance().finish(/*is_last=*/true); }

void detail::run_after_recording(Device device, void* stream, std::function<void()> f) {
  const auto wait = [its = backend(device).interop, index = device.index, stream] {
    while (its->is_recorded(index, stream)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Releases::instance().add(wait, std::move(f));
}

}  // namespace bytetape
