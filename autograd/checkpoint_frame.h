#pragma once
#include <deque>
#include <span>
#include <vector>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/node.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/random.h"

namespace bytetape::detail {

/// A function that checkpoint() ran: what is needed to run it again, and the places of saved tensors that it will fill
/// then. Owned by those; not on the tape itself, but it saves tensors as nodes do.
class CheckpointFrame final : public SavedPlaceholder {
 public:
  CheckpointFrame(ListFunction fn, std::span<const Tensor> inputs);

  /// The first run, of the same inputs: what nodes save meanwhile is left out.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  /// The second, which fills it in; then this is done with.
  void bring_back() override;
  /// For Saved::save while the function runs, the first time in place of keeping x, the second in place of the node
  /// that is made then and let go. False where x is to be kept: a leaf, which lasts anyway, and shall be found
  /// unchanged.
  bool takes(Saved& saved, const Tensor& x);
  /// Of an op's inputs while the function runs first: leaves, which the second run must find unchanged, whether or not
  /// a node saves them.
  void note_leaves(std::span<const Tensor* const> inputs);
  void forget(const Saved& saved) override { left_out_[place_of(saved)].saved = nullptr; }

 private:
  /// A tensor that the first run left out.
  struct LeftOut {
    Saved* saved;  // null where it was forgotten
    OutputInfo looks;
  };
  /// The same one of the second.
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
  CheckpointFrame* outer_ = nullptr;  // whose function runs this one
  std::vector<LeftOut> left_out_;
  std::vector<Made> made_;
  std::vector<PhiloxState> draws_;
  DType autocast_;
  Device default_device_;
  memory::ModuleCell module_;
  State state_ = State::waiting;
};

/// True where the thread runs such a function for the second time: what is not part of the graph was done already.
bool runs_again();

}  // namespace bytetape::detail
