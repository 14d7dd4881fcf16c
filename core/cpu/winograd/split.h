#pragma once
#include <cstdint>

namespace bytetape::cpu::winograd {

/// How a convolution is divided into parts, which threads share. Depends on sizes and on num_threads() only, and does
/// not change the bits of results.
struct Split {
  /// The input channels whose products are summed in registers.
  static constexpr std::int64_t depth = 64;

  bool keeps_filters;   ///< whether all filters are transformed first, because they fit into a cache
  std::int64_t block;   ///< tiles of a part
  std::int64_t groups;  ///< groups of panels of results; a part has one

  Split(std::int64_t tiles, std::int64_t channels, std::int64_t results);
  std::int64_t parts() const { return blocks_ * groups; }

 private:
  std::int64_t blocks_;
};

}  // namespace bytetape::cpu::winograd
