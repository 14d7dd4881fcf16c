#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/distributed/launcher.h"

/// \file
/// Messages between processes, by MPI. mpi_absent.cpp replaces mpi.cpp in builds without MPI.
namespace bytetape::dist::mpi {

/// Starts MPI, if a launcher of MPI started this process. MPI ends with the process, once all ranks have come so far.
/// Throws DistributedError if MPI numbers the processes in another way than the launcher.
void start(const Launch& launch);
/// The time after which a rank that does not answer counts as lost. Default: 10 minutes.
std::chrono::milliseconds timeout();
void set_timeout(std::chrono::milliseconds timeout);
/// Whether MPI connects this process with others.
bool is_running();
/// Returns why it does not, for an error.
std::string why_not();
/// Whether a collective has failed. Messages may be missing or late, so nothing more may be sent.
bool has_failed();
void set_failed();
/// Locked around all calls below, because MPI serves one thread at a time.
std::timed_mutex& calls();

/// A failure that another rank has told.
struct Failure {
  int rank;
  std::string text;
};
/// Tells all other ranks that this one fails, with the first 1000 bytes of the reason. Waits at most a second.
void tell_failure(const std::string& text) noexcept;
/// Returns a failure that another rank has told, if any.
std::optional<Failure> heard_failure();

/// Messages that are sent and received together. Between two ranks, messages arrive in the order in which they were
/// sent. The memory must stay valid until wait() returns.
class Exchange {
 public:
  Exchange();
  /// After an exception, waits for at most a second until no message is received into the memory any more.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(int to, const void* data, std::size_t bytes);
  void receive(int from, void* data, std::size_t bytes);
  /// Waits until all messages have been sent and received, or nothing has come for the time `timeout`. Returns the
  /// ranks whose messages are missing: empty if all came.
  /// Throws DistributedError if another rank has told a failure, or MPI fails.
  std::vector<int> wait(std::chrono::milliseconds timeout);

 private:
  struct Messages;
  std::unique_ptr<Messages> messages_;
};

}  // namespace bytetape::dist::mpi
