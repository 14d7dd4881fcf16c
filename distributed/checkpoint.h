#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytetape/core/files/checkpoint.h"
#include "bytetape/distributed/sharded.h"

namespace bytetape::dist {

/// Writes a checkpoint of a sharded run as a set of files: `path`, and one for each rank beside it, with the rank's own
/// elements of parameters and of the optimizer's state. Ranks write in parallel. No tensor is gathered.
///
///     StateDict state;
///     state.numbers["epoch"] = epoch;
///     dist::save_checkpoint("run.ckpt", sharded, adamw, state);
///
/// `state` is added as rank 0 has it. So are the module's persistent buffers and its parameters that are not trained. A
/// set replaces an older one as a whole: after a crash, the old or the new set is there. All ranks must call it.
/// Throws ValueError if the optimizer has other parameters than `sharded`.
/// Throws FileError on all ranks if a rank cannot write its file. The old set is then still there.
void save_checkpoint(const std::string& path, const Sharded& sharded, optim::Optimizer& optimizer,
                     const StateDict& state = {});

/// A checkpoint that dist::save_checkpoint() wrote. It can be loaded on any number of ranks, and with another Shard:
///
///     const dist::ShardedCheckpoint run("run.ckpt");
///     run.load_into(sharded, adamw);
///     epoch = run.state().integer("epoch");
///
/// Parameters and the optimizer's state then have the bits that were saved.
class ShardedCheckpoint {
 public:
  /// Reads all files of the set.
  /// Throws FileError if a file is missing, damaged or of another set.
  explicit ShardedCheckpoint(const std::string& path);
  ~ShardedCheckpoint();
  ShardedCheckpoint(const ShardedCheckpoint&) = delete;
  ShardedCheckpoint& operator=(const ShardedCheckpoint&) = delete;

  /// Returns the state that was passed to save_checkpoint(), with tensors on default_device().
  StateDict state() const;
  /// Loads the module and the optimizer. All ranks must call it.
  /// Throws ValueError if the optimizer has other parameters than `sharded`, or the checkpoint other parameters than
  /// the module, and ShapeError if a parameter has another shape or layout. Nothing has changed then. Throws ValueError
  /// if buffers or the optimizer's options differ. Buffers may have changed then.
  void load_into(const Sharded& sharded, optim::Optimizer& optimizer) const;

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

}  // namespace bytetape::dist
