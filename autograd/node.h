#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "bytetape/core/inline_vector.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/memory/allocator/spin_lock.h"
#include "bytetape/core/memory/ledger/scope_ids.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

class Node;
namespace detail {
class KeptGraph;
class SavedPlaceholder;
}  // namespace detail

/// Where a gradient goes: output `output` of `node`. No node: the input needs no gradient.
struct Edge {
  Ref<Node> node;
  std::uint32_t output = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

/// Gradients of a node's outputs, by position. An undefined tensor stands for zeros.
using Grads = InlineVector<Tensor, 4>;

/// What a rule is told of the run that calls it, and where it puts the gradients of its node's inputs.
class InputGrads {
 public:
  InputGrads(const Node& node, std::vector<bool> unwanted, bool keeps_graph, bool widens_leaves, Tensor addend = {});
  /// The gradient of input i: to be set where needs(i), unless it is zero.
  Tensor& operator[](std::size_t i) { return grads_[i]; }
  /// Number of inputs.
  std::size_t size() const { return grads_.size(); }
  /// True where the gradient of input i is asked for.
  bool needs(std::size_t i) const;
  /// True where the graph stays for another backward, which what it saved has to last for.
  bool keeps_graph() const { return keeps_graph_; }
  /// True where the gradient of input i, due in f32, may be a dense one of 16 bits: a leaf's, which backward() widens
  /// at its end together with others.
  bool may_stay_low(std::size_t i) const;
  /// What is still to be added to the gradient of output 0. Undefined but for rules that take it so.
  const Tensor& addend() const { return addend_; }

 private:
  const Node& node_;
  std::vector<bool> unwanted_;  // by input; shorter where every further one is wanted
  bool keeps_graph_, widens_leaves_;
  Tensor addend_;
  InlineVector<Tensor, 3> grads_;
};

/// A tensor kept for backward, as a named member of its node: `Saved x{this};`. Knows the version it was saved at,
/// counts as "saved for backward" on the ledger, and is let go as soon as its node has run.
class Saved {
 public:
  explicit Saved(Node* node);
  ~Saved() { release(); }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  /// Keeps an input of the op, or while recomputing() the op that can remake it; within checkpoint() what will run
  /// again, and under SavedTensorHooks what they make of it.
  void save(const Tensor& input);
  /// Keeps an output of the op (number `index`), without owning the node in a circle.
  void save_output(const Tensor& output, std::uint32_t index = 0);
  /// The tensor, connected to the graph. Undefined where an undefined tensor was saved. Throws AutogradError where it
  /// was overwritten since, naming the op that did, or was moved or converted, or the graph was already freed.
  Tensor get() const;
  /// The same for the last time in this run: lets the tensor go unless the graph stays, so that a rule may write over
  /// what nobody else holds.
  Tensor take(const InputGrads& gx);
  /// True where take() would give a tensor that nobody else holds.
  bool is_sole_owner(const InputGrads& gx) const;
  /// True where get() gives a tensor.
  bool is_kept() const { return tensor_.defined() || maker_ || placeholder_; }
  /// Lets the tensor go.
  void release();

 private:
  friend class Node;
  friend class detail::KeptGraph;
  friend class detail::SavedPlaceholder;
  void keep(const Tensor& x, std::uint32_t version);
  void bring_back() const;
  Tensor remade() const;

  Tensor tensor_;
  Ref<Node> maker_;        // in its place
  Ref<Node> placeholder_;  // in its place, until that brings it back, with the tensor's own maker_: a SavedPlaceholder
  Ref<Storage> storage_;   // as it was when saved: Module::to gives a tensor another one
  Node* node_;
  Saved* next_;
  std::uint32_t version_ = 0, output_ = 0;
  std::uint32_t place_ = 0;  // in a CheckpointFrame
  bool is_output_ = false;
};

/// One op on the tape. A derived class holds what the op saved, and the rule. Rules that are made of differentiable ops
/// can be differentiated again.
class Node : public RefCounted {
 public:
  Node();
  virtual ~Node();

  /// gx[i] = the gradient of input i, given gy[j] of output j. Leave gx[i] undefined where !gx.needs(i), or for zeros.
  /// Runs in the scope (module, op) of the forward op.
  virtual void backward(const Grads& gy, InputGrads& gx) = 0;
  /// False for a rule made of kernels: create_graph then throws instead of silently dropping terms.
  virtual bool differentiable() const { return true; }
  /// True for a rule that takes an undefined gy[j] for zeros; others get zeros that are made for them.
  virtual bool takes_undefined() const { return false; }
  /// True for a rule of one output that takes its gradient as two tensors, gy[0] and gx.addend(), where two ops gave
  /// one each: one pass less over both.
  virtual bool takes_addend() const { return false; }
  /// True for a leaf's accumulator whose gradient, due in f32, may be given in 16 bits, to be widened before it runs.
  virtual bool takes_low() const { return false; }
  /// True where remake() gives what y, the result of this op, holds now.
  virtual bool can_remake(const Tensor& y) const {
    static_cast<void>(y);
    return false;
  }
  /// The op's result once more, from what was saved.
  virtual Tensor remake() const { return {}; }

  /// True where this input requires a gradient: what it takes has to be saved.
  bool needs(std::size_t input) const { return input < edges.size() && edges[input]; }
  /// Drops edges and saved tensors; running again throws AutogradError.
  void release();
  bool released() const { return released_; }

  /// The forward op's place: "linear" in "net.fc1".
  memory::ScopeIds scope;
  /// Order of recording, after everything that the op's inputs were made by; backward runs the highest first.
  std::uint64_t sequence = 0;
  /// Where the gradient of each input goes.
  InlineVector<Edge, 3> edges;
  /// What the outputs look like: an output that got no gradient is filled with zeros like this.
  struct OutputInfo {
    Shape shape;
    DType dtype = DType::f32;
    Device device;
  };
  InlineVector<OutputInfo, 1> outputs;

  /// A function that register_hook() was given.
  struct Hook {
    std::uint32_t output;
    int handle;
    std::function<Tensor(const Tensor&)> call;
  };
  std::vector<Hook> hooks;  ///< of tensors that the node made
  virtual const std::vector<Hook>& hooks_to_run() const { return hooks; }

  static constexpr bool found_weakly = true;  ///< a leaf finds its accumulator
  /// Ends nodes one after the other: a long chain must not recurse.
  static void dispose(Node* node);

 private:
  friend class Saved;
  friend class detail::KeptGraph;
  Saved* saved_ = nullptr;
  Node* next_to_end_ = nullptr;
  bool released_ = false;
};

namespace detail {
/// What stands in the place of saved tensors until backward needs them. Owned by those, not on the tape itself.
class SavedPlaceholder : public Node {
 public:
  /// Puts back what it stands for.
  virtual void bring_back() = 0;
  /// What `saved` would have kept is not needed any more.
  virtual void forget(const Saved& saved) = 0;
  void backward(const Grads&, InputGrads&) override {}

 protected:
  /// Takes the place of x, which `saved` would keep; gives which one it is, 0 unless told.
  void substitute(Saved& saved, const Tensor& x, std::uint32_t place = 0);
  /// What forget() is told by.
  static std::uint32_t place_of(const Saved& saved) { return saved.place_; }
  /// x, at the version that it has to keep, in the place that was taken.
  static void put_back(Saved& saved, const Tensor& x, std::uint32_t version);
};
}  // namespace detail

/// The next place in the order of recording.
std::uint64_t next_sequence();

/// The end of the tape: adds what arrives to a leaf's grad.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  const Tensor& leaf() const { return leaf_; }
  void backward(const Grads& gy, InputGrads& gx) override;
  const std::vector<Hook>& hooks_to_run() const override;
  /// A hook sees a gradient as soon as it is whole.
  bool takes_low() const override {
    return outputs[0].dtype == DType::f32 && leaf_.dtype() == DType::f32 && hooks_to_run().empty() && !has_post_hooks();
  }

 private:
  void accumulate(const Tensor& g);
  bool has_post_hooks() const;
  Tensor leaf_;
  std::mutex adding_;  // graphs of several threads may end here
};

/// Autograd's slot of a tensor.
struct AutogradMeta final : AutogradSlot {
  bool requires_grad = false;  ///< asked of a leaf
  Tensor grad;
  Edge made_by;                          ///< empty on leaves
  AccumulateGrad* accumulate = nullptr;  ///< of a leaf, while a graph uses it; not owned, and guarded by `lock`
  memory::SpinLock lock;                 ///< threads may record over one leaf
  std::vector<Node::Hook> hooks;         ///< of a leaf
  struct PostHook {
    int handle;
    std::function<void(const Tensor&)> call;
  };
  std::vector<PostHook> post_hooks;  ///< of a leaf, for when its gradient is whole
};
/// The slot, made on first use.
AutogradMeta& autograd_meta(const Tensor& x);
/// The slot, or null where there is none.
AutogradMeta* autograd_meta_if_any(const Tensor& x);
/// Where x's gradient goes: the op that made it, or its accumulator. Empty where x requires no grad.
Edge gradient_edge(const Tensor& x);
/// Makes g, already checked, the gradient of x, and says so on the ledger.
void assign_grad(const Tensor& x, const Tensor& g);
/// True where nobody but `owners` of its storage sees x's bytes, and no two of its elements are one: it may be written,
/// or given away.
bool is_sole_owner(const Tensor& x, std::uint32_t owners = 1);

}  // namespace bytetape
