#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "bytetape/distributed/group.h"

/// \file
/// Short exchanges between processes, without their devices and the ledger. While memory is predicted they do nothing.
namespace bytetape::dist {

/// The processes of a group.
struct Processes {
  Communicator* communicator = nullptr;  ///< null while memory is predicted, and for one rank
  int rank = 0, size = 1;
};
Processes processes_of(const Group& group);

/// Replaces the bytes by those of rank 0. `tag` must be equal on all ranks.
void broadcast_bytes(std::span<std::byte> bytes, const Processes& processes, std::uint64_t tag = 0);
/// Returns the numbers that the ranks pass, in the order of ranks.
std::vector<std::int64_t> gather(std::int64_t mine, const Processes& processes);
/// Replaces each value by the largest of all ranks.
void max_over_ranks(std::vector<std::uint8_t>& values, const Processes& processes, std::uint64_t tag = 0);

}  // namespace bytetape::dist
