#include "bytetape/distributed/host/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <thread>

#include "bytetape/core/error.h"

namespace bytetape::dist::mpi {
namespace {

using Clock = std::chrono::steady_clock;

/// MPI, from the first start() to the end of the process.
struct Library {
  bool is_running = false;
  bool has_failed = false;  // a collective, on this rank or another one
  bool is_silent = false;   // MPI must not be called, because it would receive messages into freed memory
  int rank = 0, size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::timed_mutex calls;
  MPI_Comm data = MPI_COMM_NULL;      // tensors
  MPI_Comm failures = MPI_COMM_NULL;  // texts of ranks that failed
  std::optional<Failure> heard;

  /// Ends MPI if all ranks have come so far. MPI_Finalize() would wait for a lost rank for ever.
  ~Library();
};
Library& library() {
  static Library one;
  return one;
}

void check_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  library().has_failed = true;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(status, text, &size);
  fail<DistributedError>("MPI: ", what, " failed: ", text);
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

MPI_Comm duplicate() {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

Library::~Library() {
  int has_ended = 0;
  const std::unique_lock lock(calls, std::try_to_lock);
  if (!lock || !is_running || has_failed || MPI_Finalized(&has_ended) != MPI_SUCCESS || has_ended) return;
  try {
    MPI_Request all = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(data, &all), "MPI_Ibarrier");
    int are_there = 0;
    const auto deadline = Clock::now() + timeout;
    for (Patience patience; !are_there; patience.wait()) {
      check_mpi(MPI_Test(&all, &are_there, MPI_STATUS_IGNORE), "MPI_Test");
      if (!are_there && patience.is_long() && (heard_failure() || Clock::now() > deadline)) return;
    }
    MPI_Finalize();
  } catch (const std::exception&) {}  // MPI has failed
}

constexpr std::size_t most_at_once = std::size_t{4} << 20;  // faster than larger ones, since MPI copies within calls

/// Calls f with the pieces of a message.
template <class Byte, class F>
void in_pieces(Byte* data, std::size_t bytes, F f) {
  for (std::size_t at = 0; at < bytes; at += most_at_once)
    f(data + at, static_cast<int>(std::min(most_at_once, bytes - at)));
}

}  // namespace

void start(const Launch& launch) {
  Library& mpi = library();
  const bool by_mpi = launch.size > 1 && launch.launcher != "torchrun";
  if (mpi.is_running || !by_mpi) return;
  int has_begun = 0, provided = 0;
  MPI_Initialized(&has_begun);
  if (has_begun)
    MPI_Query_thread(&provided);
  else
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &mpi.size);
  check<DistributedError>(mpi.rank == launch.rank && mpi.size == launch.size, launch.launcher,
                          " started this process as rank ", launch.rank, " of ", launch.size, ", but MPI numbers it ",
                          mpi.rank, " of ", mpi.size,
                          ": the program was built with another MPI than that of the launcher");
  check<DistributedError>(provided >= MPI_THREAD_SERIALIZED,
                          "MPI serves only its first thread: it must be started with ",
                          "MPI_THREAD_SERIALIZED or more");
  mpi.data = duplicate();
  mpi.failures = duplicate();
  mpi.is_running = true;
}

std::chrono::milliseconds timeout() { return library().timeout; }

void set_timeout(std::chrono::milliseconds timeout) { library().timeout = timeout; }

bool is_running() { return library().is_running; }

std::string why_not() { return "start the program with mpirun"; }

bool has_failed() { return library().has_failed; }

void set_failed() { library().has_failed = true; }

std::timed_mutex& calls() { return library().calls; }

void tell_failure(const std::string& text) noexcept {
  Library& mpi = library();
  const std::unique_lock lock(calls(), std::chrono::seconds(1));       // another thread may wait for a rank
  if (!lock || !mpi.is_running || mpi.is_silent || mpi.heard) return;  // all have heard of the first failure
  mpi.has_failed = true;
  const int bytes = static_cast<int>(std::min<std::size_t>(text.size(), 1000));  // sent at once, without an answer
  std::vector<MPI_Request> sent;
  for (int rank = 0; rank < mpi.size; ++rank)
    if (rank != mpi.rank) MPI_Isend(text.data(), bytes, MPI_BYTE, rank, 0, mpi.failures, &sent.emplace_back());
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  int done = 0;
  while (!done && Clock::now() < deadline)
    if (MPI_Testall(static_cast<int>(sent.size()), sent.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return;
}

std::optional<Failure> heard_failure() {
  Library& mpi = library();
  if (mpi.heard || !mpi.is_running || mpi.is_silent) return mpi.heard;
  int is_there = 0, bytes = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, mpi.failures, &is_there, &status), "MPI_Iprobe");
  if (!is_there) return std::nullopt;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::string text(static_cast<std::size_t>(bytes), ' ');
  check_mpi(MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, 0, mpi.failures, MPI_STATUS_IGNORE), "MPI_Recv");
  mpi.has_failed = true;
  mpi.heard = Failure{status.MPI_SOURCE, std::move(text)};
  return mpi.heard;
}

struct Exchange::Messages {
  std::vector<MPI_Request> requests;
  std::vector<int> ranks;  // the other side of each request
  std::vector<int> done;   // scratch of Testsome

  MPI_Request* add(int rank) {
    ranks.push_back(rank);
    return &requests.emplace_back(MPI_REQUEST_NULL);
  }
  bool are_pending() const {
    return std::ranges::any_of(requests, [](MPI_Request r) { return r != MPI_REQUEST_NULL; });
  }
  std::vector<int> missing() const {
    std::vector<int> all;
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i] != MPI_REQUEST_NULL) all.push_back(ranks[i]);
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
  /// Returns how many messages have come or gone since the last call.
  int progress() {
    int count = 0;
    done.resize(requests.size());
    check_mpi(
        MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, done.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
    return count == MPI_UNDEFINED ? 0 : count;
  }
};

Exchange::Exchange() : messages_(std::make_unique<Messages>()) {}

Exchange::~Exchange() {
  if (!messages_->are_pending()) return;
  Library& mpi = library();
  mpi.has_failed = true;
  for (MPI_Request& request : messages_->requests)
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  try {
    const auto deadline = Clock::now() + std::chrono::seconds(1);
    while (messages_->are_pending() && Clock::now() < deadline) messages_->progress();
  } catch (const std::exception&) {}  // MPI has failed
  mpi.is_silent = messages_->are_pending();
}

void Exchange::send(int to, const void* data, std::size_t bytes) {
  in_pieces(static_cast<const char*>(data), bytes, [&](const char* piece, int size) {
    check_mpi(MPI_Isend(piece, size, MPI_BYTE, to, 0, library().data, messages_->add(to)), "MPI_Isend");
  });
}

void Exchange::receive(int from, void* data, std::size_t bytes) {
  in_pieces(static_cast<char*>(data), bytes, [&](char* piece, int size) {
    check_mpi(MPI_Irecv(piece, size, MPI_BYTE, from, 0, library().data, messages_->add(from)), "MPI_Irecv");
  });
}

std::vector<int> Exchange::wait(std::chrono::milliseconds timeout) {
  Messages& m = *messages_;
  int left = static_cast<int>(m.requests.size());
  auto last = Clock::now();
  for (Patience patience; left > 0; patience.wait()) {
    if (const int count = m.progress(); count > 0) {
      left -= count;
      patience.reset();
      last = Clock::now();
    }
    if (!patience.is_long()) continue;
    if (const auto failure = heard_failure())
      fail<DistributedError>("rank ", failure->rank, " failed: ", failure->text);
    if (Clock::now() - last > timeout) return m.missing();
  }
  return {};
}

}  // namespace bytetape::dist::mpi
