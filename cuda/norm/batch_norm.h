#pragma once
#include <cstdint>
#include <optional>

#include "bytetape/core/kernels/batch_norm.h"

namespace bytetape::cuda {

// Launches of batch normalisation, for its kernel table.
void batch_norm_statistics(const BatchNormStatisticsArgs& args, const Plan& plan, Workspace ws);
/// Computes the statistics and the result in one launch, which holds small images in registers. Returns
/// false, and launches nothing, if the images or the device do not allow it.
bool train_at_once(const BatchNormTrainArgs& args);
void batch_norm_backward(const BatchNormBackwardArgs& args, const Plan& plan, Workspace ws);
/// Computes the gradients in one launch, or returns false as train_at_once() does.
bool gradients_at_once(const BatchNormBackwardArgs& args);
/// The arrangement of a launch that holds images in registers. A cluster of blocks has all pixels of some channels.
struct HeldTiles {
  int columns;     // clusters side by side that cover the channels
  int ranks;       // blocks of a cluster
  int width;       // threads of a block side by side, each with 16 bytes of a pixel
  int per_thread;  // pixels of a thread: 4 or 8
};
inline constexpr int most_ranks = 8;         ///< blocks of a cluster; not all GPUs allow more
inline constexpr int widest_held = 8;        ///< threads side by side
inline constexpr int most_held_blocks = 64;  ///< blocks of a launch; each fills a multiprocessor
/// Threads of a block. Few large blocks leave little to combine.
inline constexpr int run_threads = 512;
/// Returns an arrangement for `pixels` pixels of `vectors` times 16 bytes, or none if they do not fit into one launch.
/// A thread holds 4 pixels, or 8 if 4 are too few and `most_per_thread` is 8.
std::optional<HeldTiles> held_tiles(std::int64_t vectors, std::int64_t pixels, int most_per_thread = 8);
/// Whether backward needs a first pass, for sums over each channel.
bool has_sums(const BatchNormBackwardArgs& args);

}  // namespace bytetape::cuda
