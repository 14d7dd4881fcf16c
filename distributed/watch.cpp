#include "bytetape/distributed/watch.h"

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

 private:
  struct Watched {
    std::weak_ptr<Communicator> communicator;
    int rank;
  };

  void run();
  bool look();
  std::string own_collective();
  std::optional<std::string> failure();
  std::vector<std::pair<std::shared_ptr<Communicator>, int>> alive();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  bool is_ending_ = false, has_failed_ = false;
  const std::shared_ptr<std::atomic<int>> aborting_ = std::make_shared<std::atomic<int>>(0);  // threads that abort
  std::thread thread_;  // last, so that it sees the members above
};

/// Waits for the last collectives, because other ranks may wait for them.
Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (int i = 0; i < 500 && *aborting_ > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::vector<std::pair<std::shared_ptr<Communicator>, int>> Watcher::alive() {
  const std::lock_guard lock(mutex_);
  std::erase_if(watched_, [](const Watched& w) { return w.communicator.expired(); });
  std::vector<std::pair<std::shared_ptr<Communicator>, int>> all;
  for (const Watched& w : watched_)
    if (auto communicator = w.communicator.lock()) all.emplace_back(std::move(communicator), w.rank);
  return all;
}

/// Says for which collective this rank waits, as it may be another one.
std::string Watcher::own_collective() {
  for (const auto& [communicator, rank] : alive())
    if (const auto waits = communicator->unfinished())
      return detail::concat("; rank ", rank, " waited for number ", waits->number, " of its group, ", waits->text);
  return "";
}

/// Returns why the collectives must end, if they must.
std::optional<std::string> Watcher::failure() {
  {
    const std::unique_lock lock(channel::calls(), std::try_to_lock);
    if (!lock) return std::nullopt;  // a collective on the host runs, and hears failures itself
    std::optional<Failure> heard;
    try {
      heard = channel::heard_failure();
    } catch (const DistributedError& e) { return e.what(); }  // the connection is lost
    if (heard) return detail::concat("rank ", heard->rank, " failed: ", heard->text, own_collective());
  }
  for (const auto& [communicator, rank] : alive()) {
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

/// Returns whether a collective is unfinished.
bool Watcher::look() {
  if (has_failed_) return false;
  if (const auto why = failure()) {
    has_failed_ = true;
    {
      const std::unique_lock lock(channel::calls(), std::chrono::seconds(1));
      channel::set_failed();
    }
    // Each in a thread, because the end of one may wait until the device has finished those of others.
    for (const auto& each : alive()) {
      ++*aborting_;
      std::thread([each, why = *why, count = aborting_] {
        each.first->abort(why);
        --*count;
      }).detach();
    }
    return false;
  }
  for (const auto& each : alive())
    if (each.first->unfinished()) return true;
  return false;
}

void Watcher::run() {
  constexpr auto pause = std::chrono::milliseconds(50);
  for (;;) {
    bool is_ending = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, pause, [this] { return is_ending_; });
      is_ending = is_ending_;
    }
    bool is_unfinished = false;
    try {
      is_unfinished = look();
    } catch (const std::exception&) {}  // MPI has failed, or the device
    if (is_ending && !is_unfinished) return;
    if (is_ending) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void watch(const std::shared_ptr<Communicator>& communicator, int rank) {
  static_cast<void>(channel::is_running());  // constructed first, so that it ends last
  static Watcher watcher;
  watcher.add(communicator, rank);
}

}  // namespace bytetape::dist
