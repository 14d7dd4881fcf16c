#pragma once
#include <deque>
#include <span>
#include <vector>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/node.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/random.h"

namespace bytetape::detail {

/// A function that checkpoint() ran, with all that its second run needs, and the saved tensors that the run restores.
/// Owned by those saved tensors. It is not on the tape, but saves tensors as nodes do.
class CheckpointFrame final : public SavedPlaceholder {
 public:
  CheckpointFrame(ListFunction fn, std::span<const Tensor> inputs);

  /// Runs the function for the first time. Tensors that nodes save meanwhile are not kept.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  /// Runs the function for the second time, restores the saved tensors, and releases the frame's state.
  void bring_back() override;
  /// Called by Saved::save while the function runs. In the first run it notes x instead of keeping it. In the second
  /// run it gives x to the matching node of the first.
  /// Returns false if x must be kept: a leaf, which lives anyway and must be unchanged in the second run.
  bool takes(Saved& saved, const Tensor& x);
  /// Notes the leaves among an op's inputs in the first run, saved or not. The second run checks that they are
  /// unchanged.
  void note_leaves(std::span<const Tensor* const> inputs);
  void forget(const Saved& saved) override { left_out_[place_of(saved)].saved = nullptr; }

 private:
  /// A tensor that the first run did not keep.
  struct LeftOut {
    Saved* saved;  // null after forget()
    OutputInfo looks;
  };
  /// The tensor of the second run that replaces it.
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
  Device default_device_;
  memory::ModuleCell module_;
  State state_ = State::waiting;
};

/// Whether this thread runs a checkpointed function for the second time. Side effects outside the graph must not happen
/// again.
bool runs_again();

}  // namespace bytetape::detail
