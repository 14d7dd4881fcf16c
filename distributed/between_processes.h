#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/distributed/group.h"

/// \file
/// Short exchanges between processes, without their devices and the ledger. While memory is predicted they do nothing.
namespace bytetape::dist {

/// Replaces the numbers by those of rank 0. `tag` must be equal on all ranks.
void broadcast_numbers(std::vector<std::int32_t>& numbers, const Group& group, std::uint64_t tag);
/// Replaces each value by the largest of all ranks.
void max_over_ranks(std::vector<std::uint8_t>& values, const Group& group, std::uint64_t tag = 0);

}  // namespace bytetape::dist
