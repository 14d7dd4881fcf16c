#pragma once
#include <cstdint>

namespace bytetape::memory {

/// The purpose of a block. Roles are never inferred: code sets them where the purpose is known.
enum class Role : std::uint8_t {
  parameter,        ///< registered with a module, as a parameter or a buffer
  autocast_copy,    ///< a parameter's 16-bit copy for autocast
  gradient,         ///< a tensor's grad()
  optimizer_state,  ///< made by an optimizer
  input,            ///< a batch, or data read from a file
  saved,            ///< a temporary, while a tape node keeps it for backward
  temporary,        ///< any other result of an op
  workspace,        ///< a kernel's scratch memory, during one op
  key_value_cache,  ///< an nn::KeyValueCache
  communication,    ///< buffers that ranks exchange: a dist::DataParallel's gradients
};
inline constexpr int role_count = 10;
/// "parameter", "optimizer state", ...
const char* to_string(Role r);

/// The part of a training step that a thread executes.
enum class Phase : std::uint8_t {
  setup,      ///< everything else
  data,       ///< a Dataset allocates or fills a batch
  forward,    ///< in a memory::Step or a module's call, outside the other phases
  backward,   ///< Tensor::backward() or grad()
  optimizer,  ///< Optimizer::step()
};
inline constexpr int phase_count = 5;
/// "setup", "data", ...
const char* to_string(Phase p);

}  // namespace bytetape::memory
