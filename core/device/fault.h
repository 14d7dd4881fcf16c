#pragma once
#include <cstdint>

namespace bytetape {

/// An invalid value that only a kernel can detect, such as a class index out of range. The result of its row is 0.
/// On the CPU it throws at once. A GPU stores it, and the next read by the host, or synchronize(), throws it in the
/// scope of the op. Between the two, optimizer steps are skipped, and not counted, on the fault's stream and on streams
/// that have waited for it. All launches of a step agree on that. Ranks that NCCL connects agree on faults of the work
/// before backward's first exchange (distributed/gradients.h).
struct Fault {
  enum class Kind : std::uint32_t { none, target, example, index, from_end, probabilities, position, other_rank };
  Kind kind = Kind::none;
  std::int64_t value = 0;
  std::int64_t bound = 0;  ///< the value must be in [0, bound); for from_end: in [-bound, bound); for probabilities:
                           ///< the draws from row number `value`; for other_rank: unused, as the value is the rank
};

/// Throws the fault in the thread's scope: ShapeError for an example, DistributedError for one of another rank, else
/// ValueError.
[[noreturn]] void throw_fault(const Fault& fault);

}  // namespace bytetape
