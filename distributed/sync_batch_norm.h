#pragma once
#include "bytetape/distributed/group.h"
#include "bytetape/nn/module.h"

namespace bytetape::dist {

/// Makes the BatchNorm layers of `module` normalise with the statistics of all ranks' batches in training
/// (torch.nn.SyncBatchNorm.convert_sync_batchnorm).
///
///     dist::sync_batch_norm(net, world);
///     const dist::DataParallel parallel(net, world);
///
/// Running statistics are then equal on all ranks. Ranks may have batches of different sizes, but all must run the
/// layers in the same order, in forward and in backward. Running statistics do not change if a channel has fewer than
/// two values on all ranks together. The layers cost an exchange in each direction. They are not
/// twice differentiable. Does nothing in a group of one rank. Evaluation is unchanged.
void sync_batch_norm(nn::Module& module, const Group& group);

}  // namespace bytetape::dist
