#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/distributed/launcher.h"

namespace bytetape::dist {

/// A failure that another rank reported.
struct Failure {
  int rank;
  std::string text;
};

/// Messages that are sent and received together. Between two ranks, messages arrive in the order in which they were
/// sent. The buffers must stay valid until the messages are complete.
class Messages {
 public:
  /// Cancels incomplete messages. Their buffers are not written afterwards.
  virtual ~Messages() = default;
  virtual void send(int to, const void* data, std::size_t bytes) = 0;
  virtual void receive(int from, void* data, std::size_t bytes) = 0;
  /// Returns how many messages were completed since the last call.
  /// Throws DistributedError if the transport fails.
  virtual int progress() = 0;
  /// The number of all messages.
  virtual int count() const = 0;
  /// The peers of the incomplete messages, in ascending order.
  virtual std::vector<int> missing() const = 0;
};

/// Moves messages between the processes of a launch. It serves one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Whether messages may be as long as tensors.
  virtual bool carries_tensors() const = 0;
  virtual std::unique_ptr<Messages> messages() = 0;
  /// Sends all other ranks the reason why this one fails. Waits at most a second.
  virtual void tell_failure(const std::string& text) noexcept = 0;
  /// Returns the next failure that another rank reported, if any.
  virtual std::optional<Failure> take_failure() = 0;
  /// Waits until all ranks have called this, or may_wait() is false.
  virtual void finish(const std::function<bool()>& may_wait) = 0;
};

/// Connects by MPI. Returns null if the build lacks it.
/// Throws DistributedError if MPI's ranks differ from the launcher's.
std::unique_ptr<Transport> connect_by_mpi(const Launch& launch);

/// Connects the ranks by TCP, for messages of at most 1 MiB. Rank 0 listens on the host MASTER_ADDR, on a port that
/// follows from the launch. Only processes with the same launch, and the same BYTETAPE_JOB_KEY, can connect.
/// Throws ValueError without MASTER_ADDR and MASTER_PORT.
/// Throws DistributedError if a rank does not connect before the timeout.
std::unique_ptr<Transport> connect_by_sockets(const Launch& launch, std::chrono::milliseconds timeout);

}  // namespace bytetape::dist
