#pragma once
#include <cstdint>

#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/ledger/role.h"

namespace bytetape::memory {

/// The number of a GPU's stream (core/device/stream.h), below stream_count; 0 is the default stream.
using StreamId = std::uint8_t;
inline constexpr int stream_count = 16;

/// The names under which a thread allocates. Blocks and events store all but the stream, which selects the policy that
/// serves the block.
struct ScopeIds {
  NameId module = 0;
  NameId op = 0;
  Phase phase = Phase::setup;
  StreamId stream = 0;

  /// Returns other names on the same stream.
  ScopeIds with(NameId its_module, NameId its_op, Phase its_phase) const {
    return {its_module, its_op, its_phase, stream};
  }
};

}  // namespace bytetape::memory
