#pragma once
#include <cstdint>

#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/ledger/role.h"

namespace bytetape::memory {

/// Where a GPU's work goes (core/device/stream.h), of stream_count; 0 is the device's own.
using StreamId = std::uint8_t;
inline constexpr int stream_count = 16;

/// Who is allocating: recorded on every block and event, but for the stream, which says where blocks come from.
struct ScopeIds {
  NameId module = 0;
  NameId op = 0;
  Phase phase = Phase::setup;
  StreamId stream = 0;

  /// Another one on the same stream.
  ScopeIds with(NameId its_module, NameId its_op, Phase its_phase) const {
    return {its_module, its_op, its_phase, stream};
  }
};

}  // namespace bytetape::memory
