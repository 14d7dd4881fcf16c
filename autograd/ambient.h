#pragma once
#include <optional>
#include <type_traits>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/dtype.h"

namespace bytetape {

class OpObserver;
class SavedTensorHooks;

namespace detail {

class BackwardEnd;
class CheckpointFrame;
class ObservedOp;

/// The thread's modes that autograd reads. A scope sets each mode and restores the old value at its end.
/// docs/architecture.md lists the modes of all folders.
struct AutogradAmbient {
  /// Whether ops are recorded on the tape: grad_enabled(). Set by GradMode and NoGrad, and by backward (to its
  /// `create_graph`). Default: true.
  bool grad_mode = true;
  /// Which cheap activations are recomputed in backward: recomputing(). Set by Recompute. Default: none.
  RecomputeMode recompute = RecomputeMode::none;
  /// The innermost observer of ops. Set by OpObserver. Default: null, none.
  OpObserver* op_observer = nullptr;
  /// The op that runs. Set by Op while there is an observer. Default: null, none.
  ObservedOp* op_call = nullptr;
  /// Whether results are checked for NaNs: detecting_anomaly(). Set by DetectAnomaly. Default: false.
  bool detect_anomaly = false;
  /// Whether a checkpointed function is being recomputed: runs_again(). Set by CheckpointFrame. Default: false.
  bool runs_again = false;
  /// The dtype of low-precision ops: autocast_dtype(). Set by Autocast. Default: f32, which is no autocast.
  DType autocast = DType::f32;
  /// The first run's fused_attention(). Set by CheckpointFrame in the second run. Default: none, that of all threads.
  std::optional<bool> fused_attention = std::nullopt;
  /// The checkpointed function that runs. Set by CheckpointFrame. Default: null, none.
  CheckpointFrame* checkpoint = nullptr;
  /// The hooks for tensors saved for backward. Set by SavedTensorHooks. Default: null, none.
  const SavedTensorHooks* saved_tensor_hooks = nullptr;
  /// The functions of at_end_of_backward(). Set by backward() while it runs. Default: null, no backward.
  BackwardEnd* backward_end = nullptr;
};
// Access to a thread-local variable with a destructor would cost a call.
static_assert(std::is_trivially_destructible_v<AutogradAmbient>);

inline constinit thread_local AutogradAmbient autograd_ambient{};

}  // namespace detail
}  // namespace bytetape
