#include "bytetape/distributed/watch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/distributed/host/channel.h"

namespace bytetape::dist {
namespace {

/// The thread that watches, from the first watch() to the end of the process.
class Watcher {
 public:
  Watcher() : thread_([this] { run(); }) {}
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void add(const std::shared_ptr<Communicator>& communicator, int rank) {
    const std::lock_guard lock(mutex_);
    watched_.push_back({communicator, rank});
  }
  void remove(const Communicator& communicator) {
    const std::lock_guard lock(mutex_);
    std::erase_if(watched_, [&](const Watched& w) { return w.communicator.get() == &communicator; });
  }

 private:
  struct Watched {
    std::shared_ptr<Communicator> communicator;
    int rank;
  };

  void run();
  bool look();
  std::optional<std::string> failure();
  std::optional<std::string> failure_of_a_rank();
  std::optional<std::string> timeout();
  void abort_all(const std::string& why);

  std::mutex mutex_;  // guards watched_, and is held while they are used
  std::vector<Watched> watched_;
  std::mutex ending_;
  std::condition_variable changed_;
  bool is_ending_ = false;  // guarded by ending_
  bool has_failed_ = false;
  const std::shared_ptr<std::atomic<int>> aborting_ = std::make_shared<std::atomic<int>>(0);  // threads that abort
  std::thread thread_;  // last, so that it sees the members above
};

/// Waits for the last collectives, because other ranks may wait for them.
Watcher::~Watcher() {
  {
    const std::lock_guard lock(ending_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (int i = 0; i < 500 && *aborting_ > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::optional<std::string> Watcher::failure_of_a_rank() {
  const std::unique_lock lock(channel::calls(), std::try_to_lock);
  if (!lock) return std::nullopt;  // a collective on the host runs, and hears failures itself
  try {
    if (const auto heard = channel::heard_failure())
      return detail::concat("rank ", heard->rank, " failed: ", heard->text);
  } catch (const DistributedError& e) { return e.what(); }  // the connection is lost
  if (channel::has_failed()) return "this rank has failed";
  return std::nullopt;
}

std::optional<std::string> Watcher::timeout() {
  for (const auto& [communicator, rank] : watched_) {
    const auto late = communicator->unfinished();
    if (!late || late->waiting < channel::timeout()) continue;
    const std::string why = detail::concat("number ", late->number, " of its group, ", late->text, ": rank ", rank,
                                           " had no answer from all ranks within ",
                                           std::chrono::duration<double>(channel::timeout()).count(), " s");
    channel::tell_failure(why);
    return why;
  }
  return std::nullopt;
}

/// Returns why the collectives must end, if they must.
std::optional<std::string> Watcher::failure() {
  auto why = failure_of_a_rank();
  if (!why) return timeout();
  for (const auto& [communicator, rank] : watched_)  // it may wait for another collective than the rank that failed
    if (const auto waits = communicator->unfinished())
      return detail::concat(*why, "; rank ", rank, " waited for number ", waits->number, " of its group, ",
                            waits->text);
  return why;
}

/// Each in a thread, because the end of one may wait until the device has finished those of others.
void Watcher::abort_all(const std::string& why) {
  for (const Watched& w : watched_) {
    ++*aborting_;
    std::thread([communicator = w.communicator, why, count = aborting_] {
      communicator->abort(why);
      --*count;
    }).detach();
  }
}

/// Returns whether a collective is unfinished.
bool Watcher::look() {
  const std::lock_guard lock(mutex_);
  if (has_failed_ || watched_.empty()) return false;
  if (const auto why = failure()) {
    has_failed_ = true;
    channel::set_failed();
    abort_all(*why);
    return false;
  }
  return std::ranges::any_of(watched_, [](const Watched& w) { return w.communicator->unfinished().has_value(); });
}

void Watcher::run() {
  constexpr auto pause = std::chrono::milliseconds(50);
  for (;;) {
    bool is_ending = false;
    {
      std::unique_lock lock(ending_);
      changed_.wait_for(lock, pause, [this] { return is_ending_; });
      is_ending = is_ending_;
    }
    bool is_unfinished = false;
    try {
      is_unfinished = look();
    } catch (const std::exception&) {}  // the device has failed
    if (is_ending && !is_unfinished) return;
    if (is_ending) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Watcher& watcher() {
  static_cast<void>(channel::is_running());  // constructed first, so that it ends last
  static Watcher one;
  return one;
}

}  // namespace

void watch(const std::shared_ptr<Communicator>& communicator, int rank) { watcher().add(communicator, rank); }

void unwatch(const Communicator& communicator) { watcher().remove(communicator); }

}  // namespace bytetape::dist
