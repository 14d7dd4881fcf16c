#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bytetape/distributed/group.h"
#include "bytetape/nn/module.h"

namespace bytetape::dist {

/// Options of a DataParallel.
struct DataParallelOptions {
  /// Gradients are exchanged in buckets of at most this size, each as soon as backward has computed it. A larger
  /// gradient has a bucket of its own. The last buckets are smaller, because nothing hides their exchange.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// The dtype in which f32 gradients are exchanged: f32, bf16 or f16. 16 bits halve the traffic. The gradients are
  /// rounded before the exchange, and their average is f32 again.
  DType exchange_dtype = DType::f32;
  /// Whether backward may leave out parameters. Ranks may leave out different ones, whose gradients there count as 0. A
  /// parameter that all ranks leave out gets no gradient. Costs one more exchange for each backward.
  bool allow_unused = false;
};

/// Trains a module on several ranks, each with its own part of a batch (torch.nn.parallel.DistributedDataParallel):
///
///     const dist::Group world = dist::init();
///     Net net;
///     const dist::DataParallel parallel(net, world);
///     optim::SGD sgd(net.parameters(), {.lr = 0.1});
///     for (auto [x, t] : loader) {
///       cross_entropy(net(x), t).backward();  // net.parameters() now have the average of the ranks' gradients
///       sgd.step();
///       sgd.zero_grad();
///     }
///
/// Parameters and buffers start with the values of rank 0. Each backward() averages the gradients of the parameters
/// over the ranks, so that equal optimizers keep the parameters equal, bit for bit. Buffers, such as the running
/// statistics of BatchNorm, are not exchanged afterwards.
///
/// Gradients are views of buckets, in the order in which the first backward computes them. The buckets have the role
/// `communication` in memory reports, and are held as long as this object. With a 16-bit exchange_dtype, gradients have
/// memory of their own beside the buckets.
///
/// In a group of one rank it does nothing.
///
/// Each backward() of a rank must compute the gradient of one parameter at least, as it exchanges nothing else. A
/// gradient that you keep over zero_grad() is overwritten by the next backward(). Predictions with allow_unused assume
/// that all ranks leave out the same parameters.
///
/// The module must outlive this object. Freeze, convert or move parameters before you make it. Do not destroy it in a
/// hook. Hooks on gradients see the local gradients, and the grad() of another parameter only once its bucket was
/// exchanged. optim::StepInBackward and backward() with create_graph are not supported.
class DataParallel {
 public:
  /// Throws ValueError if bucket_bytes is 0, no parameter requires grad, or a parameter is in another DataParallel.
  /// Throws DTypeError if exchange_dtype is not f32, bf16 or f16.
  /// Throws DistributedError if parameters or buffers differ over ranks in name, shape, strides, dtype or
  /// requires_grad.
  DataParallel(nn::Module& module, const Group& group, const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// The names of the parameters for which the last backward() computed no gradient on this rank.
  const std::vector<std::string>& unused() const;
  /// The number of buckets: 0 before the first backward().
  std::size_t bucket_count() const;
  /// The bytes that each bucket sends, in the order of exchange.
  std::vector<std::size_t> bucket_bytes() const;

 private:
  friend class NoSync;
  class Reducer;
  std::unique_ptr<Reducer> reducer_;
};

/// While it lives, backward() adds to the gradients of this rank, and exchanges nothing (torch's no_sync). The next
/// backward() after it exchanges the sums. For gradient accumulation.
class NoSync {
 public:
  /// `parallel` must outlive the scope.
  [[nodiscard]] explicit NoSync(const DataParallel& parallel);
  ~NoSync() { is_off_ = previous_; }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  bool& is_off_;
  bool previous_;
};

}  // namespace bytetape::dist
