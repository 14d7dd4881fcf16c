#pragma once
#include <cstdint>
#include <optional>

#include "bytetape/core/kernels/batch_norm.h"

namespace bytetape::cuda {

// Launches of batch normalisation, for its kernel table.
void batch_norm_statistics(const BatchNormStatisticsArgs& args, const Plan& plan, Workspace ws);
/// Computes the statistics and the result in one launch, which holds small images in registers. Returns whether it can.
bool train_at_once(const BatchNormTrainArgs& args);
void batch_norm_backward(const BatchNormBackwardArgs& args, const Plan& plan, Workspace ws);
/// The same for the gradients.
bool gradients_at_once(const BatchNormBackwardArgs& args);
/// The arrangement of a launch that holds images in registers. A cluster of blocks has all pixels of some channels.
struct HeldTiles {
  int columns;     // clusters side by side that cover the channels
  int ranks;       // blocks of a cluster
  int width;       // threads of a block side by side, each with 16 bytes of a pixel
  int per_thread;  // pixels of a thread: 4 or 8
};
/// Blocks of a cluster, as many as every GPU with clusters takes, and threads side by side.
inline constexpr int most_ranks = 8, widest_held = 8;
/// Threads of a block. Few large blocks leave little to combine.
inline constexpr int run_threads = 512;
/// Returns the arrangement for `pixels` pixels of `vectors` times 16 bytes, if all fit at the same time.
std::optional<HeldTiles> held_tiles(std::int64_t vectors, std::int64_t pixels);
/// Whether backward needs a first pass, for sums over each channel.
bool has_sums(const BatchNormBackwardArgs& args);

}  // namespace bytetape::cuda
