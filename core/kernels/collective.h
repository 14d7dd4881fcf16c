#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// The operations between the ranks of a group.
enum class Collective : std::uint8_t {
  all_reduce,      ///< y: the reduction of the ranks' x
  reduce_scatter,  ///< y: this rank's part of the reduction. x has `size` parts
  all_gather,      ///< y: the ranks' x, in the order of ranks
  all_to_all,      ///< y: part `rank` of each rank's x, in the order of ranks
  broadcast,       ///< y: x of the rank `peer`
  send,            ///< x goes to the rank `peer`
  recv,            ///< y comes from the rank `peer`
  barrier,         ///< waits for all ranks
};
/// "all_reduce", ...
const char* name_of(Collective c);

/// How ranks' values are combined: on the CPU in the order of ranks, 16-bit floats in f32 and rounded once; on GPUs in
/// NCCL's order.
enum class ReduceOp : std::uint8_t { sum, average, min, max, product };
/// "sum", ...
const char* name_of(ReduceOp op);

class Communicator;

/// One rank's part in a collective. x and y are row-major, and may be the same memory in all_reduce and broadcast. In
/// reduce_scatter y may be part `rank` of x, and in all_gather x may be part `rank` of y.
struct CollectiveArgs {
  Collective kind = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  int rank = 0, size = 1;
  int peer = -1;                         ///< root of a broadcast, other side of send and recv
  std::uint64_t tag = 0;                 ///< must be equal on all ranks
  bool is_recorded = false;              ///< on the tape, so that all ranks take part in backward
  ConstView x;                           ///< undefined in recv, barrier, and broadcast from another rank
  View y;                                ///< undefined in send and barrier
  Communicator* communicator = nullptr;  ///< null while memory is predicted
};

/// Connects the ranks of a group for the memory of one device type. distributed/ has one for the CPU, and cuda/ has one
/// for GPUs.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Does this rank's part, in the order of the thread's stream. Each rank must call the same collectives of a group in
  /// the same order.
  /// Throws DistributedError if a rank does not answer, has failed, or calls another collective.
  virtual void run(const CollectiveArgs& args, Workspace ws) = 0;

  /// A collective that the device has not finished.
  struct Unfinished {
    std::uint64_t number;  ///< of its group
    std::string text;      ///< "all_reduce (sum) of f32, 100 elements"
    std::chrono::steady_clock::duration waiting;
  };
  /// Returns the oldest one. None if run() returns after its collective. Any thread may call it.
  virtual std::optional<Unfinished> unfinished() { return std::nullopt; }
  /// Ends unfinished collectives, whose results are then lost. Later reads by the host throw DistributedError with
  /// `why`. Any thread may call it.
  virtual void abort(const std::string& why) { static_cast<void>(why); }
};

/// The id with which the ranks of a group connect. One rank makes it (ncclUniqueId).
using ConnectionId = std::array<char, 128>;

struct CollectiveKernels {
  Planned<CollectiveArgs> exchange;
  /// y = parts[0] op parts[1] op ..., in this order. All are row-major, with y's dtype and shape. y may be one of the
  /// parts. `average` is of floating dtypes, and bool has min and max only.
  void (*combine)(std::span<const ConstView> parts, ReduceOp op, const View& y);
  /// Writes rank + 1 to y, an f32 scalar, if a fault (core/device/fault.h) of the thread's stream is pending, else 0.
  /// This function and leave_fault are null if the device throws faults at once.
  void (*note_fault)(const View& y, int rank) = nullptr;
  /// Leaves the fault of rank x - 1 if x, an f32 scalar, is not 0 and no fault is pending.
  void (*leave_fault)(const ConstView& x) = nullptr;
  /// Returns a number that is another one for each device of all hosts.
  std::uint64_t (*identity)(Device device) = nullptr;
  /// Returns a new id. Null, as connect, if distributed/ connects the ranks for this memory.
  ConnectionId (*new_id)() = nullptr;
  /// Connects this process with the other ranks, which must call it at the same time, with the same id.
  /// Throws DistributedError if that fails, or takes longer than `timeout`.
  std::unique_ptr<Communicator> (*connect)(Device device, const ConnectionId& id, int rank, int size,
                                           std::chrono::milliseconds timeout) = nullptr;
};

}  // namespace bytetape
