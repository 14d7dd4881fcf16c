#pragma once
#include <cstdint>
#include <span>

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

/// How ranks' values are combined, in the order of ranks. 16-bit floats are combined in f32, and rounded once.
enum class ReduceOp : std::uint8_t { sum, average, min, max, product };
/// "sum", ...
const char* name_of(ReduceOp op);

class Communicator;

/// One rank's part in a collective. x and y are row-major, and may be the same memory in all_reduce and broadcast.
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

/// Connects the ranks of a group for the memory of one device type. distributed/ has one for the CPU.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Does this rank's part. Each rank must call the same collectives of a group in the same order.
  /// Throws DistributedError if a rank does not answer, has failed, or calls another collective.
  virtual void run(const CollectiveArgs& args, Workspace ws) = 0;
};

struct CollectiveKernels {
  Planned<CollectiveArgs> exchange;
  /// y = parts[0] op parts[1] op ..., in this order. All are row-major, with y's dtype and shape. y may be one of the
  /// parts. `average` is of floating dtypes, and bool has min and max only.
  void (*combine)(std::span<const ConstView> parts, ReduceOp op, const View& y);
};

}  // namespace bytetape
