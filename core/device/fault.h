#pragma once
#include <cstdint>

namespace bytetape {

/// A value that only a kernel can see to be wrong. On the CPU it is thrown at once; a device leaves it where it is
/// found at the next read by the host, or synchronize(), and throws it then, in the scope of the op that left it. Rows
/// with a fault count as zero. From when it is left until it is thrown, steps of optimizers do nothing, and count as
/// not taken, on the stream that it was left on and on those that have waited for it since. All launches of a step
/// agree.
struct Fault {
  enum class Kind : std::uint32_t { none, target, example, index };
  Kind kind = Kind::none;
  std::int64_t value = 0;
  std::int64_t bound = 0;  ///< the value was to be in [0, bound)
};

/// Throws what the fault is: ValueError of a target or an index, ShapeError of an example. Named after the thread's
/// scope.
[[noreturn]] void throw_fault(const Fault& fault);

}  // namespace bytetape
