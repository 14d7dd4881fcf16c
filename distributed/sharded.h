#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/state_dict.h"
#include "bytetape/distributed/group.h"
#include "bytetape/nn/module.h"

namespace bytetape::optim {
class Optimizer;
}

namespace bytetape::dist {

/// The tensors that Sharded divides among ranks. `gradients` includes optimizer_state, and `parameters` includes both.
/// For N ranks and P parameters in f32, a rank holds with Adam, in bytes: 16 P without sharding, 8 P + 8 P / N,
/// 4 P + 12 P / N, or 16 P / N. With ShardedOptions::parameter_dtype: 4 P + 12 P / N, 2 P + 14 P / N, or 14 P / N.
enum class Shard : std::uint8_t {
  optimizer_state,  ///< ZeRO 1
  gradients,        ///< ZeRO 2
  parameters,       ///< ZeRO 3, fully sharded
};

/// Options of a Sharded.
struct ShardedOptions {
  Shard shard = Shard::parameters;
  /// Parameters, in the order of named_parameters(), share rows of at most this size. A larger one has a row of its
  /// own. A row is exchanged as a whole.
  std::size_t row_bytes = std::size_t{25} << 20;
  /// The bytes of rows that forward keeps gathered, with Shard::parameters. The rows of a running op are kept in any
  /// case. If two rows fit, the next row is gathered while one is used. If all fit, backward gathers none again.
  std::size_t gathered_bytes = std::size_t{64} << 20;
  /// Whether backward may leave out parameters. Ranks may leave out different ones, whose gradients there count as 0.
  /// With Shard::parameters, all ranks must leave out the same ones. A parameter that all ranks leave out gets no
  /// gradient. Costs one more exchange for each backward.
  bool allow_unused = false;
  /// bf16: f32 parameters of the module become bf16 tensors, which are gathered, and whose gradients are exchanged and
  /// kept, in 16 bits. parameters() stay f32, so that small updates are not lost (torch's
  /// MixedPrecisionPolicy::param_dtype). Default: parameters keep their dtype.
  std::optional<DType> parameter_dtype = {};
  /// Where the rows are made, one after the other. Buffers and other parameters move there too. So a model may be made
  /// in the memory of the host that does not fit that of a GPU. Default: rows are made where the parameters are.
  std::optional<Device> device = {};
};

/// Trains a module on several ranks, each with its own part of a batch and of the memory (Rajbhandari et al., "ZeRO",
/// 2020; torch's FSDP):
///
///     const dist::Group world = dist::init();
///     Net net;
///     const dist::Sharded sharded(net, world);
///     optim::AdamW adamw(sharded.parameters(), {.lr = 3e-4});
///     for (auto [x, t] : loader) {
///       cross_entropy(net(x), t).backward();  // the gradients of sharded.parameters() are now averages over the ranks
///       sharded.clip_grad_norm_(1.0);
///       adamw.step();
///       adamw.zero_grad();
///     }
///
/// Parameters and buffers start with the values of rank 0. The module's parameters lie one after the other in rows, of
/// which each rank owns an equal part. An optimizer updates the rank's own elements. With one backward() for each
/// step, the parameters then have the same bits as those of dist::DataParallel.
///
/// With Shard::optimizer_state and Shard::gradients, step() gathers the new parameters. With Shard::parameters, the
/// first op that uses a parameter gathers its row, also in evaluation, and from the second step on the row that comes
/// next, within gathered_bytes. An op of forward that uses a row first frees other rows, if more than gathered_bytes
/// would be gathered. Backward frees a row when its gradients are complete. So all ranks must use the same parameters
/// in the same order, also to read, save or load them. Reads by the host, as by to_vector() or save_safetensors(),
/// gather rows and free none.
///
/// Backward averages the gradients of a row over the ranks as soon as they are complete, and leaves each rank its part.
/// The grad() of the module's own parameters stays undefined, so clear gradients by zero_grad() of the optimizer.
/// Gradients of several backward runs add up. Hooks on parts do not run.
///
/// All ranks must write the same values to parameters, by ops or load_state_dict(), not through Tensor::data(). A write
/// or a step counts for all parameters of a row: the backward of an older graph that uses one of them throws
/// AutogradError. With row_bytes = 1 each parameter has a row of its own.
///
/// Parameters that do not require grad, and buffers, are whole on each rank. In a group of one rank, parameters() are
/// the module's, unless parameter_dtype is set. After this object is destroyed, the module can be used, but optimizers
/// of the parts no longer train it.
///
/// The module must outlive this object, and be used on the thread that made it. Freeze and convert parameters before
/// you make it, and move them before, or by ShardedOptions::device. Each backward() of a rank must compute the gradient
/// of one parameter at least.
class Sharded {
 public:
  /// Throws ValueError if row_bytes is 0, no parameter requires grad, or a parameter is in another Sharded or
  /// DataParallel.
  /// Throws DistributedError if parameters or buffers differ over ranks in name, shape, strides, dtype or
  /// requires_grad.
  Sharded(nn::Module& module, const Group& group, const ShardedOptions& options = {});
  ~Sharded();
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  /// Returns this rank's elements of each parameter that requires grad, as leaves of one dim, for optimizers. A rank
  /// may own no elements of a parameter.
  std::vector<Tensor> parameters() const;
  /// Returns parameters() with the names that the parameters have in the module.
  NamedTensors named_parameters() const;
  /// Scales the gradients in place so that the norm of all ranks' gradients is at most `max_norm`
  /// (optim::clip_grad_norm_). Returns the norm before scaling. Gradients become NaN if it is not finite. Its bits
  /// depend on the number of ranks. Throws what optim::clip_grad_norm_ throws.
  Tensor clip_grad_norm_(double max_norm) const;
  /// The names of the parameters for which the last backward() computed no gradient on this rank.
  const std::vector<std::string>& unused() const;

  /// Returns the module's state_dict() with the values of parameters(), whole on each rank. With parameter_dtype they
  /// are f32, where those of the module are rounded. All ranks must call it.
  NamedTensors state_dict() const;
  /// Returns the state of an optimizer of parameters() with whole tensors, equal on all ranks. It is the state that an
  /// optimizer of the unsharded module has, and can be loaded on another number of ranks. All ranks must call it.
  StateDict optimizer_state(optim::Optimizer& optimizer) const;
  /// Loads what optimizer_state() returned, or the state of an optimizer of the unsharded module.
  /// Throws what Optimizer::load_state_dict() throws.
  void load_optimizer_state(optim::Optimizer& optimizer, const StateDict& state) const;

  /// The part of a parameter that this rank owns: elements `begin` to `end` in the order of memory.
  struct Part {
    std::string name;
    Tensor values;  ///< of one dim, or the parameter where parameters() are the module's
    Shape shape;    ///< of the parameter
    Strides strides;
    std::int64_t begin = 0, end = 0;
  };
  /// Returns named_parameters() with their places.
  std::vector<Part> parts() const;
  /// Makes the values of parameters() those of the module, after you have written them. All ranks must call it.
  void note_written() const;
  nn::Module& module() const { return *module_; }
  const Group& group() const;

 private:
  class State;
  nn::Module* module_;
  std::unique_ptr<State> state_;
};

}  // namespace bytetape::dist
