#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <vector>

#include "bytetape/core/inline_vector.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/memory/allocator/spin_lock.h"
#include "bytetape/core/memory/ledger/scope_ids.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

class GradSink;
class Node;
namespace detail {
class KeptGraph;
class SavedPlaceholder;
}  // namespace detail

/// The destination of a gradient: output number `output` of `node`. A null node means that no gradient is needed.
struct Edge {
  Ref<Node> node;
  std::uint32_t output = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

/// The gradients of a node's outputs, by position. An undefined tensor stands for zeros.
using Grads = InlineVector<Tensor, 4>;

/// The tensors that the kernel of a rule reads.
using Operands = std::initializer_list<const Tensor*>;

/// A gradient that exists before a rule runs, to which the rule may add in place.
struct GradSoFar {
  Tensor grad;                        ///< undefined if no gradient exists
  Ref<Node> owner;                    ///< of the mutex
  std::unique_lock<std::mutex> lock;  ///< locked if the gradient is a leaf's, to which other threads may add
};
/// Finds the gradients that exist, for InputGrads.
class GradsSoFar {
 public:
  virtual GradSoFar take(const Edge& edge, Operands operands) = 0;

 protected:
  ~GradsSoFar() = default;
};

/// The gradients of a node's inputs, which its rule sets, and what the rule may know about the backward run.
class InputGrads {
 public:
  InputGrads(const Node& node, std::vector<bool> unwanted, bool keeps_graph, bool widens_leaves, Tensor addend = {},
             GradsSoFar* so_far = nullptr);
  /// The gradient of input i. The rule sets it if needs(i); undefined means zero.
  Tensor& operator[](std::size_t i) { return grads_[i]; }
  /// The number of inputs.
  std::size_t size() const { return grads_.size(); }
  /// Whether the gradient of input i is needed.
  bool needs(std::size_t i) const;
  /// Whether the graph is kept for another backward, so that saved tensors must not be released.
  bool keeps_graph() const { return keeps_graph_; }
  /// Whether the f32 gradient of input i may be a dense 16-bit tensor. True for leaves whose gradients backward()
  /// converts together at its end.
  bool may_stay_low(std::size_t i) const;
  /// A second tensor to add to the gradient of output 0. Undefined unless the rule takes_addend().
  const Tensor& addend() const { return addend_; }
  /// Returns the sum of the gradients of input i that exist, of earlier rules or backward runs. The rule must add its
  /// own to it in place with a kernel that reads `operands`, and set the gradient to this tensor. It is row-major, with
  /// the shape and dtype that the gradient must have, and shares no memory with the operands. Returns an undefined
  /// tensor if no gradient exists or if it must not be written. The rule then makes a new gradient. Call this last,
  /// because it may lock a leaf until the results are passed on.
  Tensor so_far(std::size_t i, Operands operands);
  /// Whether the gradient of input i was added to that of a leaf, so that the engine must not add it again.
  bool is_in_leaf(std::size_t i) const { return leaf_lock_.owns_lock() && in_leaf_ == i; }

 private:
  const Node& node_;
  std::vector<bool> unwanted_;  // by input; missing entries are wanted
  bool keeps_graph_, widens_leaves_;
  Tensor addend_;
  GradsSoFar* so_far_;
  Ref<Node> locked_leaf_;
  std::unique_lock<std::mutex> leaf_lock_;
  std::size_t in_leaf_ = 0;
  InlineVector<Tensor, 3> grads_;
};

/// A tensor that a node saves for backward, as a member of the node: `Saved x{this};`.
/// It knows the version that was saved, has the role "saved for backward" on the ledger, and is released once its node
/// has run.
class Saved {
 public:
  explicit Saved(Node* node);
  ~Saved() { release(); }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  /// Saves an input of the op. Under Recompute it may keep the op that can recompute the tensor instead. Inside
  /// checkpoint() it keeps only leaves, and under SavedTensorHooks the result of the hook.
  void save(const Tensor& input);
  /// Saves output number `index` of the op, without a reference cycle.
  void save_output(const Tensor& output, std::uint32_t index = 0);
  /// Returns the tensor, connected to the graph, or an undefined tensor if an undefined one was saved.
  /// Throws AutogradError if the tensor was overwritten (naming the op that wrote it), moved or converted, or if the
  /// graph is already freed.
  Tensor get() const;
  /// Returns the tensor like get(), and releases it unless the graph is kept. The rule may then overwrite it if nobody
  /// else holds it.
  Tensor take(const InputGrads& gx);
  /// Whether take() would return a tensor that nobody else holds.
  bool is_sole_owner(const InputGrads& gx) const;
  /// Whether the tensor is held, here or in a placeholder, as it was saved. A tensor that a node would recompute is
  /// not.
  bool is_intact() const;
  /// Releases the tensor.
  void release();

 private:
  friend class Node;
  friend class detail::KeptGraph;
  friend class detail::SavedPlaceholder;
  void keep(const Tensor& x, std::uint32_t version);
  void bring_back() const;
  Tensor remade() const;

  Tensor tensor_;
  Ref<Node> maker_;        // recomputes the tensor, if not null
  Ref<Node> placeholder_;  // a SavedPlaceholder that restores the tensor and maker_, if not null
  Ref<Storage> storage_;   // as saved; Module::to gives a tensor another storage
  Node* node_;
  Saved* next_;
  std::uint32_t version_ = 0, output_ = 0;
  std::uint32_t place_ = 0;  // index in a CheckpointFrame
  bool is_output_ = false;
};

/// An op on the tape. A derived class holds the saved tensors and the backward rule.
/// A rule made of differentiable ops supports higher derivatives.
class Node : public RefCounted {
 public:
  Node();
  virtual ~Node();

  /// Sets gx[i] to the gradient of input i, from the gradients gy[j] of the outputs j.
  /// gx[i] may stay undefined if !gx.needs(i) or if it is zero. Runs in the scope (module, op) of the forward op.
  virtual void backward(const Grads& gy, InputGrads& gx) = 0;
  /// Whether the rule consists of differentiable ops. If false, create_graph throws instead of dropping terms.
  virtual bool differentiable() const { return true; }
  /// Whether the rule accepts an undefined gy[j] as zeros. If false, the engine passes a tensor of zeros.
  virtual bool takes_undefined() const { return false; }
  /// Whether the rule accepts the gradient of output 0 as two summands, gy[0] and gx.addend(). That saves a pass over
  /// both.
  virtual bool takes_addend() const { return false; }
  /// Whether the f32 gradient of a leaf may arrive in 16 bits, to be converted before this accumulator runs.
  virtual bool takes_low() const { return false; }
  /// Whether remake() would return the current value of y, the first output of this op.
  virtual bool can_remake(const Tensor& y) const {
    static_cast<void>(y);
    return false;
  }
  /// Recomputes the op's first output from its saved tensors.
  virtual Tensor remake() const { return {}; }
  /// Returns remake(), attributed to the forward op and its module.
  /// Throws AutogradError if the node was released.
  Tensor remade() const;

  /// Whether this input requires grad, so that its rule's tensors must be saved.
  bool needs(std::size_t input) const { return input < edges.size() && edges[input]; }
  /// Releases edges and saved tensors. A later backward through the node throws AutogradError.
  void release();
  bool released() const { return released_; }

  /// Op and module of the forward op, such as "linear" in "net.fc1".
  memory::ScopeIds scope;
  /// The order of recording: greater than that of the nodes that made the inputs. Backward runs the highest number
  /// first.
  std::uint64_t sequence = 0;
  /// The destinations of the inputs' gradients.
  InlineVector<Edge, 3> edges;
  /// Shape, dtype and device of an output, for the zeros that stand for a missing gradient.
  struct OutputInfo {
    Shape shape;
    DType dtype = DType::f32;
    Device device;
  };
  InlineVector<OutputInfo, 1> outputs;

  /// A function passed to register_hook().
  struct Hook {
    std::uint32_t output;
    int handle;
    std::function<Tensor(const Tensor&)> call;
  };
  std::vector<Hook> hooks;  ///< of the node's outputs
  virtual const std::vector<Hook>& hooks_to_run() const { return hooks; }

  static constexpr bool found_weakly = true;  ///< a leaf refers to its accumulator weakly
  /// Deletes nodes one after the other, because a long chain must not recurse.
  static void dispose(Node* node);

 private:
  friend class Saved;
  friend class detail::KeptGraph;
  Saved* saved_ = nullptr;
  Node* next_to_end_ = nullptr;
  bool released_ = false;
};

namespace detail {
/// A placeholder for saved tensors until backward needs them. Owned by the Saved members that it stands for. Not on the
/// tape.
class SavedPlaceholder : public Node {
 public:
  /// Restores the saved tensors.
  virtual void bring_back() = 0;
  /// Called when `saved` does not need its tensor any more.
  virtual void forget(const Saved& saved) = 0;
  void backward(const Grads&, InputGrads&) override {}

 protected:
  /// Replaces x in `saved` by this placeholder, under the number `place`. Default: 0.
  void substitute(Saved& saved, const Tensor& x, std::uint32_t place = 0);
  /// The number that substitute() was given, for forget().
  static std::uint32_t place_of(const Saved& saved) { return saved.place_; }
  /// Puts x back into `saved`, at the version that was saved.
  static void put_back(Saved& saved, const Tensor& x, std::uint32_t version);
};
}  // namespace detail

/// Returns the next number in the order of recording.
std::uint64_t next_sequence();

/// The node that adds gradients to a leaf's grad.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  const Tensor& leaf() const { return leaf_; }
  /// Whether the leaf has the dtype and device of the gradients that arrive here. Its shape never changes.
  bool fits_leaf() const;
  /// Throws AutogradError if the leaf was moved or converted since this graph was recorded.
  void check_leaf() const;
  /// Throws AutogradError like check_leaf(). The leaf's gradient is then unchanged.
  void backward(const Grads& gy, InputGrads& gx) override;
  /// If a rule has added to the leaf's gradient in place, no gradient arrives here.
  bool takes_undefined() const override { return true; }
  /// Returns the leaf's gradient for a rule that adds to it, and locks the leaf. Returns an undefined tensor if the
  /// leaf has no gradient or was moved or converted, a hook must see what is added, the dtype or layout differs, the
  /// rule reads the gradient, a graph has saved it, or another thread adds to it.
  GradSoFar so_far(Operands operands);
  const std::vector<Hook>& hooks_to_run() const override;
  /// Whether the next gradient goes to the leaf's sink, in place of its grad.
  bool goes_to_sink() const;
  /// False if the leaf has hooks, because a hook must see the gradient in f32.
  bool takes_low() const override {
    return outputs[0].dtype == DType::f32 && leaf_.dtype() == DType::f32 && hooks_to_run().empty() && !has_post_hooks();
  }

 private:
  void accumulate(const Tensor& g);
  bool has_post_hooks() const;
  bool is_current() const;
  Tensor leaf_;
  std::mutex adding_;  // graphs of several threads may end here
};

/// Autograd's fields of a tensor.
struct AutogradMeta final : AutogradSlot {
  bool requires_grad = false;  ///< set by the user on a leaf
  Tensor grad;
  Edge made_by;                          ///< empty on leaves
  AccumulateGrad* accumulate = nullptr;  ///< of a leaf that a graph uses; not owned, guarded by `lock`
  memory::SpinLock lock;                 ///< several threads may record ops on one leaf
  std::vector<Node::Hook> hooks;         ///< of a leaf
  struct PostHook {
    int handle;
    std::function<void(const Tensor&)> call;
  };
  std::vector<PostHook> post_hooks;  ///< of a leaf, called when its gradient is complete
  GradSink* sink = nullptr;          ///< of a leaf (autograd/grad_sink.h); not owned
};
/// Returns autograd's fields of x, created on first use.
AutogradMeta& autograd_meta(const Tensor& x);
/// Returns autograd's fields of x, or null if it has none.
AutogradMeta* autograd_meta_if_any(const Tensor& x);
/// Returns the destination of x's gradient: the op that made x, or its accumulator. Empty if x requires no grad.
/// A leaf that was moved or converted gets a new accumulator.
Edge gradient_edge(const Tensor& x);
/// Makes g, already checked, the gradient of x, and sets its role on the ledger.
void assign_grad(const Tensor& x, const Tensor& g);
/// Whether x may be overwritten or given away. True if its storage has no more than `owners` references, and no two
/// elements of x share memory.
bool is_sole_owner(const Tensor& x, std::uint32_t owners = 1);

}  // namespace bytetape
