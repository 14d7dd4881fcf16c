#pragma once
#include <cstdint>
#include <vector>

namespace bytetape::cuda {

/// The library that proposes algorithms. The key of a rank consists of the library, its version, the device's compute
/// capability, and everything that the choice depends on.
enum class Proposer : std::int64_t { cublaslt, cudnn };
using RankKey = std::vector<std::int64_t>;

/// Returns the index of the algorithm to use among a library's proposals. It was measured by tune() in this process or
/// for ranks.inc; default 0.
int rank_of(const RankKey& key);
/// Sets the rank of a key.
void set_rank(const RankKey& key, int rank);
/// Whether tune() is on and this thread may wait for the device. It may not while it records a step.
bool is_tuning();

}  // namespace bytetape::cuda
