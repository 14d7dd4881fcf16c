#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/tensor.h"
#include "bytetape/distributed/group.h"
#include "bytetape/nn/module.h"

/// \file
/// Functions for DataParallel and Sharded.
namespace bytetape::dist {

/// Attributes work in backward to no module, and to the given op.
class OutsideModules {
 public:
  [[nodiscard]] explicit OutsideModules(std::string_view op)
      : scope_(memory::ambient.scope.with(0, memory::intern(op), memory::ambient.scope.phase)) {}

 private:
  const memory::ScopeGuard scope_;
};

/// The alignment of parameters and gradients within a row, in bytes, for kernels that load vectors.
inline constexpr std::int64_t row_alignment = 128;

/// Returns a new number, from 1, that all ranks of the group get if they call it in the same order; 0 in a prediction,
/// which one rank may make alone.
std::uint64_t next_number(const Group& group, const nn::Module& module);
/// Throws DistributedError if parameters or buffers differ over ranks in name, shape, strides, dtype or requires_grad.
void check_alike(const nn::Module& module, const Group& group);

/// Copies the first tensor of each pair to the second, all in one launch for each dtype. Sources may be 16-bit, for
/// destinations in f32.
void copy_gradients(const std::vector<std::pair<Tensor, Tensor>>& moves);

}  // namespace bytetape::dist
