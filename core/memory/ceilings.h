#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/memory/work_count.h"

namespace bytetape::memory {

/// The most that a device can do, as bench/ceilings measured it.
struct Ceilings {
  std::string device;                                ///< "cpu", "cuda", ...
  std::string processor;                             ///< its name, for readers
  double bytes_per_s = 0;                            ///< of a kernel that reads and writes large tensors
  std::array<double, precision_count> flop_per_s{};  ///< of large products, by Precision; 0: not measured
};

/// The floating-point operations and bytes of some kernels.
struct RooflineWork {
  std::array<std::uint64_t, precision_count> flop{};  ///< by Precision
  std::uint64_t bytes = 0;

  std::uint64_t all_flop() const;
};

/// Returns the least time of the work in nanoseconds: that of its products or of its bytes, whichever is longer
/// (Williams, Waterman and Patterson, "Roofline", 2009). None if the ceiling of one of its products was not measured.
std::optional<double> roofline_time(const RooflineWork& work, const Ceilings& ceilings);

/// Returns the ceilings of a device, or null. A GPU without its own has those of GPU 0, and a meta device those of the
/// device that it stands for.
const Ceilings* find_ceilings(const std::vector<Ceilings>& all, const std::string& device);

/// Returns the file in which bench/ceilings keeps the ceilings of this machine: the value of BYTETAPE_CEILINGS, or else
/// bytetape/ceilings.json in XDG_CACHE_HOME or ~/.cache. "" if none of these variables is set, or the first is empty.
std::string default_ceilings_file();

/// Throws FileError if the file cannot be read, or has no ceilings.
std::vector<Ceilings> read_ceilings(const std::string& path);
/// Replaces the file, and makes its folder.
/// Throws FileError if it cannot be written.
void write_ceilings(const std::string& path, const std::vector<Ceilings>& ceilings);

}  // namespace bytetape::memory
