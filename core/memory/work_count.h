#pragma once
#include <cstdint>

#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/ledger/role.h"

namespace bytetape::memory {

/// The arithmetic in which a device computes products. Each has a ceiling of its own.
enum class Precision : std::uint8_t { f64, f32, tf32, bf16, f16 };
inline constexpr int precision_count = 5;
/// "f64", "f32", "tf32", "bf16" or "f16".
const char* to_string(Precision p);

/// The work of the kernels that a step launched on one device for one op of one module, in one phase.
struct WorkCount {
  std::uint32_t table = 0;   ///< the steps of equal work share the rows of a table
  std::uint32_t device = 0;  ///< index into Log::devices
  NameId module = 0, op = 0;
  std::uint32_t launches = 0;  ///< calls of kernels of the device's table; each may be several kernels of the device
  Phase phase = Phase::setup;
  Precision precision = Precision::f32;  ///< of the products; f32 without products
  std::uint64_t flop = 0;                ///< floating-point operations of products
  std::uint64_t bytes = 0;               ///< bytes that the kernels must at least move
  friend bool operator==(const WorkCount&, const WorkCount&) = default;
};

/// CountedStep::table of a step without work.
inline constexpr std::uint32_t no_work = 0xffffffff;

/// A step whose work was counted.
struct CountedStep {
  std::uint64_t time = 0;         ///< of its end, in nanoseconds since the recording began
  std::uint32_t step = 0;         ///< its number
  std::uint32_t step_device = 0;  ///< index into Log::devices of the device that numbered it
  std::uint32_t table = 0;        ///< WorkCount::table of its rows
};

}  // namespace bytetape::memory
