#include "bytetape/distributed/host/channel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "bytetape/core/error.h"

namespace bytetape::dist::channel {
namespace {

using Clock = std::chrono::steady_clock;

/// The connection, from the first start() to the end of the process.
struct State {
  std::unique_ptr<Transport> transport;
  bool is_without_mpi = false;           // a launcher of MPI started the process, and the build lacks it
  std::atomic<bool> has_failed = false;  // a collective, on this rank or another one
  std::atomic<std::chrono::milliseconds> timeout{std::chrono::minutes(10)};
  std::mutex calls;
  std::optional<Failure> heard;

  ~State();
};
State& state() {
  static State one;
  return one;
}

/// Waits for the other ranks, unless one has failed, because it may never come.
State::~State() {
  const std::unique_lock lock(calls, std::try_to_lock);
  if (!lock || !transport || has_failed) {
    static_cast<void>(transport.release());  // ending it could wait
    return;
  }
  try {
    const auto deadline = Clock::now() + timeout.load();
    transport->finish([&] { return !heard_failure() && Clock::now() < deadline; });
  } catch (const std::exception&) {}  // the transport has failed
}

/// Waits longer the longer nothing has come. Ranks may share cores, so that this one must not spin.
class Patience {
 public:
  void wait() {
    if (++tries_ % 8 != 0) return;
    if (tries_ < 20000)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  bool is_long() const { return tries_ % 64 == 0; }
  void reset() { tries_ = 0; }

 private:
  int tries_ = 0;
};

}  // namespace

void start(const Launch& launch) {
  State& s = state();
  if (s.transport || launch.size == 1) return;
  s.transport = launch.launcher == "torchrun" ? connect_by_sockets(launch, s.timeout) : connect_by_mpi(launch);
  s.is_without_mpi = !s.transport;
}

std::chrono::milliseconds timeout() { return state().timeout; }

void set_timeout(std::chrono::milliseconds timeout) { state().timeout = timeout; }

bool is_running() { return state().transport != nullptr; }

bool carries_tensors() { return is_running() && state().transport->carries_tensors(); }

std::string why_not() {
  return state().is_without_mpi
             ? "bytetape was built without MPI: install libopenmpi-dev or libmpich-dev, and build again"
             : "start the program with mpirun";
}

bool has_failed() { return state().has_failed; }

void set_failed() { state().has_failed = true; }

std::mutex& calls() { return state().calls; }

void tell_failure(const std::string& text) noexcept {
  State& s = state();
  std::unique_lock lock(s.calls, std::defer_lock);  // another thread may wait for a rank
  for (int i = 0; i < 1000 && !lock.try_lock(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!lock || !s.transport || s.heard) return;  // all have heard of the first failure
  s.has_failed = true;
  s.transport->tell_failure(text.substr(0, 1000));
}

std::optional<Failure> heard_failure() {
  State& s = state();
  if (s.heard || !s.transport) return s.heard;
  s.heard = s.transport->take_failure();
  if (s.heard) s.has_failed = true;
  return s.heard;
}

Exchange::Exchange() : messages_(state().transport->messages()) {}

Exchange::~Exchange() {
  if (!messages_->missing().empty()) set_failed();
}

/// Throws the failure that another rank has told, if any.
static void throw_heard() {
  if (const auto failure = heard_failure()) fail<DistributedError>("rank ", failure->rank, " failed: ", failure->text);
}

std::vector<int> Exchange::wait(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds grace{200};  // lets messages in flight arrive after a failure was heard
  int left = messages_->count();
  auto last = Clock::now();
  bool has_heard = false;
  for (Patience patience; left > 0; patience.wait()) {
    int count = 0;
    try {
      count = messages_->progress();
    } catch (const DistributedError&) {
      throw_heard();  // says more than that the rank has ended
      throw;
    }
    if (count > 0) {
      left -= count;
      patience.reset();
      last = Clock::now();
    }
    if (!patience.is_long()) continue;
    if (!has_heard && heard_failure()) {
      has_heard = true;
      last = Clock::now();
    }
    const auto waited = Clock::now() - last;
    if (has_heard && waited > grace) throw_heard();
    if (waited > timeout) return messages_->missing();
  }
  return {};
}

}  // namespace bytetape::dist::channel
