#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape::cpu::onednn {

const dnnl::engine& engine();
/// Returns attributes with which scratch memory comes from the caller.
const dnnl::primitive_attr& user_scratchpad();

/// Returns the primitive descriptor of P for these arguments. oneDNN 3 merged P::desc into P::primitive_desc, with the
/// same order of arguments.
template <class P, class... Args>
typename P::primitive_desc describe_with(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine(), args..., attr);
#else
  return typename P::primitive_desc(typename P::desc(args...), attr, engine());
#endif
}
template <class P, class... Args>
typename P::primitive_desc describe(const Args&... args) {
  return describe_with<P>(user_scratchpad(), args...);
}

/// As describe_with(), for a backward primitive, which needs the forward descriptor.
template <class P, class Hint, class... Args>
typename P::primitive_desc describe_backward(const Hint& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine(), args..., forward, user_scratchpad());
#else
  return typename P::primitive_desc(typename P::desc(args...), user_scratchpad(), engine(), forward);
#endif
}

/// The kind of result that a primitive computes.
enum class Computes { product, weight_grad, other };
/// Whether results of an implementation are not repeatable. True for oneDNN's older matrix product (gemm), whose sums
/// depend on the number of threads. Without AVX-512, true for all primitives that use it, which then allocate memory,
/// and for the weight gradient of 1x1 convolutions, which differs from run to run on two threads.
bool is_unrepeatable(std::string_view implementation, Computes computes);

/// Compiled primitives for one set of shapes, which run one after the other. Only addresses change from run to run.
class Program {
 public:
  using Slot = int;

  /// Adds an argument of run(), in the order of these calls. The last ones may be omitted in run().
  Slot argument(const dnnl::memory::desc& desc);
  /// Adds memory within the workspace.
  Slot scratch(const dnnl::memory::desc& desc);
  using Arguments = std::vector<std::pair<int, Slot>>;  // by oneDNN's argument names
  template <class Desc>
  void step(const Desc& desc, const dnnl::primitive& primitive, const Arguments& args) {
    constexpr Computes computes = std::is_same_v<Desc, dnnl::matmul::primitive_desc> ? Computes::product
                                  : std::is_same_v<Desc, dnnl::convolution_backward_weights::primitive_desc>
                                      ? Computes::weight_grad
                                      : Computes::other;
    is_repeatable_ = is_repeatable_ && !is_unrepeatable(desc.impl_info_str(), computes);
    add(primitive, desc.scratchpad_desc(), args);
  }
  /// Adds a copy between two layouts.
  void reorder(Slot from, Slot to);
  /// Returns `slot` in the layout `wanted`: `slot` itself, or scratch memory to which it is copied.
  Slot read_as(Slot slot, const dnnl::memory::desc& wanted);
  const dnnl::memory::desc& desc(Slot slot) const { return slots_[static_cast<std::size_t>(slot)].desc; }

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Whether each run gives the same bits and uses no memory besides the workspace.
  bool is_repeatable() const { return is_repeatable_; }
  /// Runs the primitives. Values for omitted arguments are ignored.
  void run(std::initializer_list<const void*> arguments, void* workspace);

 private:
  struct SlotInfo {
    dnnl::memory::desc desc;
    dnnl::memory memory;
    bool is_argument;
    std::size_t offset;  // in the workspace
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, const Arguments& args);

  std::vector<SlotInfo> slots_;
  std::vector<Step> steps_;
  std::size_t workspace_bytes_ = 0;
  bool is_repeatable_ = true;
};

/// All that a program depends on.
class Key {
 public:
  enum class Kind : std::int64_t { matmul, conv2d, conv2d_input_grad, conv2d_weight_grad };
  /// Begins with the kind and the number of threads, for which primitives are compiled.
  explicit Key(Kind kind);
  void add(std::int64_t v) { values_[size_++] = v; }
  void add(const Dims& dims) {
    for (std::int64_t d : dims) add(d);
  }
  std::size_t hash() const;
  friend bool operator==(const Key& a, const Key& b) { return a.size_ == b.size_ && a.values_ == b.values_; }

 private:
  std::array<std::int64_t, 40> values_{};
  std::size_t size_ = 0;
};

/// Returns a plan that runs this thread's program for `key`. `make` compiles the program if it is not among the last
/// 128. The program's workspace follows `copies` bytes that the kernel uses itself.
Plan plan_program(const Key& key, const std::function<Program()>& make, std::size_t copies = 0);
/// Returns the program of a plan from plan_program().
inline Program& program_of(const Plan& plan) { return *static_cast<Program*>(plan.program.get()); }

}  // namespace bytetape::cpu::onednn
