#pragma once
#include <cstdint>

namespace bytetape::memory {

/// Why a block is held. Exact, never inferred: set where the fact is known.
enum class Role : std::uint8_t {
  parameter,        ///< registered with a module, as a parameter or a buffer
  autocast_copy,    ///< a parameter's copy in 16 bits, which autocast computes with
  gradient,         ///< some tensor's grad()
  optimizer_state,  ///< made by an optimizer
  input,            ///< a batch, or what a file of data was read into
  saved,            ///< a temporary that the tape keeps for backward, for as long as any node does
  temporary,        ///< everything else that an op makes
  workspace,        ///< a kernel's scratch, for the length of one op
};
inline constexpr int role_count = 8;
/// "parameter", "optimizer state", ...
const char* to_string(Role r);

/// What the program was doing, by thread.
enum class Phase : std::uint8_t {
  setup,      ///< everything else
  data,       ///< a Dataset allocates or fills a batch
  forward,    ///< within a memory::Step or the call of a module, where it is none of the others
  backward,   ///< Tensor::backward() or grad()
  optimizer,  ///< Optimizer::step()
};
inline constexpr int phase_count = 5;
/// "setup", "data", ...
const char* to_string(Phase p);

}  // namespace bytetape::memory
