#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/distributed/host/transport.h"
#include "bytetape/distributed/launcher.h"

/// \file
/// The connection between the processes of a launch. MPI carries tensors and control messages; sockets, for torchrun's
/// processes, control messages alone.
namespace bytetape::dist::channel {

/// Connects this process with the others, if a launcher started several. The connection ends with the process, once all
/// ranks have come so far.
/// Throws DistributedError if the ranks cannot be connected.
void start(const Launch& launch);
/// The time after which a rank that does not answer counts as lost. Default: 10 minutes.
std::chrono::milliseconds timeout();
void set_timeout(std::chrono::milliseconds timeout);
/// Whether this process is connected with others.
bool is_running();
/// Whether tensors of the CPU can be sent.
bool carries_tensors();
/// Returns why tensors cannot be sent, or why the process is not connected, for an error.
std::string why_not();
/// Whether a collective has failed. Messages may be missing or late, so nothing more may be sent.
bool has_failed();
void set_failed();
/// Locked around all calls below, because a transport serves one thread at a time.
std::mutex& calls();

/// Tells all other ranks that this one fails, with the first 1000 bytes of the reason. Waits at most a second.
void tell_failure(const std::string& text) noexcept;
/// Returns a failure that another rank reported, if any.
std::optional<Failure> heard_failure();

/// Messages that are sent and received together (host/transport.h).
class Exchange {
 public:
  Exchange();
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(int to, const void* data, std::size_t bytes) { messages_->send(to, data, bytes); }
  void receive(int from, void* data, std::size_t bytes) { messages_->receive(from, data, bytes); }
  /// Waits until all messages have been sent and received, or nothing has come for the time `timeout`. Returns the
  /// ranks whose messages are missing: empty if all came.
  /// Throws DistributedError if another rank reported a failure, or the transport fails.
  std::vector<int> wait(std::chrono::milliseconds timeout);

 private:
  std::unique_ptr<Messages> messages_;
};

}  // namespace bytetape::dist::channel
