#pragma once
#include <deque>
#include <span>
#include <vector>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/random.h"

namespace bytetape::detail {

/// One call of checkpoint(): the function, everything that its second run needs, and the list of saved tensors that the
/// second run restores. Those saved tensors own the frame. The frame is not on the tape, but saves tensors as nodes do.
class CheckpointFrame final : public SavedPlaceholder {
 public:
  CheckpointFrame(ListFunction fn, std::span<const Tensor> inputs);

  /// Runs the function for the first time. Tensors that nodes save during the run are not kept, except leaves.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  /// Runs the function for the second time, restores the saved tensors, and releases the frame's state.
  void bring_back() override;
  /// Called by Saved::save while the function runs. In the first run, notes shape, dtype and device of x, and does not
  /// keep x. In the second run, collects x for the matching node of the first run.
  /// Returns false if the caller must keep x. That is so for leaves that require grad: they live anyway, and must be
  /// unchanged in the second run.
  bool takes(Saved& saved, const Tensor& x);
  /// In the first run, notes the leaves that require grad among an op's inputs, even if the op does not save them. The
  /// second run checks that they are unchanged.
  void note_leaves(std::span<const Tensor* const> inputs);
  void forget(const Saved& saved) override { left_out_[place_of(saved)].saved = nullptr; }

 private:
  /// A tensor that the first run did not keep.
  struct LeftOut {
    Saved* saved;  // null after forget()
    OutputInfo looks;
  };
  /// The tensor of the second run that replaces a LeftOut.
  struct Made {
    Tensor x;
    std::uint32_t version;
  };
  enum class State { waiting, first, second };

  void make();
  void check_made() const;
  void fill_in();

  ListFunction fn_;
  std::deque<Saved> inputs_, leaves_;
  CheckpointFrame* outer_ = nullptr;  // the checkpoint that this one runs in
  std::vector<LeftOut> left_out_;
  std::vector<Made> made_;
  std::vector<PhiloxState> draws_;
  DType autocast_;
  bool fused_attention_;
  RecomputeMode recompute_;
  Device default_device_;
  memory::ModuleCell module_;
  State state_ = State::waiting;
};

/// Whether this thread runs a checkpointed function for the second time. Code with side effects outside the graph must
/// then skip them.
bool runs_again();

}  // namespace bytetape::detail
