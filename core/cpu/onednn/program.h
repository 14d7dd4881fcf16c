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

#include "bytetape/core/cpu/onednn/describe.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape::cpu::onednn {

/// Of CPUs without AVX-512: whether an implementation is oneDNN's own product of matrices, whose sums depend on threads
/// and which takes memory of its own, or the 1x1 convolution's weight gradient, two runs of which differ on two
/// threads.
bool is_unrepeatable(std::string_view implementation, bool is_weight_grad);

/// Primitives compiled for one set of shapes and ready to run one after the other: all but the addresses is fixed.
class Program {
 public:
  using Slot = int;

  /// Memory that run() is given, in the order of these calls; what comes last may be left out.
  Slot argument(const dnnl::memory::desc& desc);
  /// Memory within the workspace.
  Slot scratch(const dnnl::memory::desc& desc);
  using Arguments = std::vector<std::pair<int, Slot>>;  // by oneDNN's names
  template <class Desc>
  void step(const Desc& desc, const dnnl::primitive& primitive, const Arguments& args) {
    constexpr bool is_weight_grad = std::is_same_v<Desc, dnnl::convolution_backward_weights::primitive_desc>;
    is_repeatable_ = is_repeatable_ && !is_unrepeatable(desc.impl_info_str(), is_weight_grad);
    add(primitive, desc.scratchpad_desc(), args);
  }
  /// Copies between two layouts.
  void reorder(Slot from, Slot to);
  /// `slot` in the layout `wanted`: itself, or a scratch that is filled from it.
  Slot read_as(Slot slot, const dnnl::memory::desc& wanted);
  const dnnl::memory::desc& desc(Slot slot) const { return slots_[static_cast<std::size_t>(slot)].desc; }

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Whether its bits are the same each time, and all its memory is the workspace.
  bool is_repeatable() const { return is_repeatable_; }
  /// Of arguments that the program does not have, any value is ignored.
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

/// What a program depends on.
class Key {
 public:
  enum class Kind : std::int64_t { matmul, conv2d, conv2d_input_grad, conv2d_weight_grad };
  /// Starts with the kind and the number of threads, which primitives are compiled for.
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

/// The plan that runs this thread's program for `key`, compiled by `make` where it is not kept: the last 128 are.
/// The program's workspace comes after `copies` bytes of the kernel's own.
Plan plan_program(const Key& key, const std::function<Program()>& make, std::size_t copies = 0);
/// The program of such a plan.
inline Program& program_of(const Plan& plan) { return *static_cast<Program*>(plan.program.get()); }

}  // namespace bytetape::cpu::onednn
