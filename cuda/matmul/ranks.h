#pragma once
#include <cstdint>
#include <vector>

namespace bytetape::cuda {

/// Who proposes algorithms; with its version, the device's compute capability, and all that its choice depends on, this
/// is the key of a rank.
enum class Proposer : std::int64_t { cublaslt, cudnn };
using RankKey = std::vector<std::int64_t>;

/// Which of the algorithms that a library proposes is to run: as was measured, by tune() in this process or for
/// ranks.inc; else the first.
int rank_of(const RankKey& key);
/// Replaces it.
void set_rank(const RankKey& key, int rank);
/// Whether tune() is on, and this thread may wait for the device: not while it records a step.
bool is_tuning();

}  // namespace bytetape::cuda
