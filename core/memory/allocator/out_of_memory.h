#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/diff.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/outside.h"

namespace bytetape::memory {

/// What the books said when a request failed, after the cache had given back what it could.
struct Shortage {
  Device device;
  std::string name;              ///< of the memory: "cuda:1", "pinned:cuda"
  std::size_t requested = 0;     ///< bytes asked for
  std::size_t limit = 0;         ///< bytes that may be reserved
  std::size_t unreserved = 0;    ///< bytes of the limit not yet reserved
  std::size_t largest_free = 0;  ///< the largest request that the cache can serve
  std::size_t unusable = 0;      ///< bytes of the cache that serve smaller requests only, whatever their pieces
  std::size_t elsewhere = 0;     ///< bytes of the cache that serve other streams or captured steps
  Statistics statistics;
  std::size_t capacity = 0;              ///< bytes that the upstream has
  std::uint32_t step = 0;                ///< that the thread had open; 0: none
  Phase phase = Phase::setup;            ///< of the thread
  std::optional<Outside> outside;        ///< of a GPU: what is used beyond the ledger, where that can be measured
  std::vector<Holding> holders;          ///< by module, op and role, the largest first
  std::size_t max_fit_if_compacted = 0;  ///< the largest request that would fit, were all that is held laid anew

  /// Bytes that a block would take: `requested` rounded up, 0 counting as 1.
  std::size_t needed() const;
  /// Reserved, but in no block: pieces between blocks.
  std::size_t cached() const { return statistics.reserved.current - statistics.allocated.current; }
  /// What can still be reserved: `unreserved`, as far as the device has it left.
  std::size_t available() const;
  /// All that is free.
  std::size_t free() const { return cached() + available(); }
  /// The limit allowed it, and so did the device as far as is known, but the upstream had no more.
  bool refused() const { return needed() <= available(); }
  /// Enough is free, in pieces that are each too small or serve smaller requests only.
  bool fragmented() const { return !refused() && needed() <= free(); }
  /// Bytes that are missing: beyond all that is free, or, where fragmented or refused, beyond what fits. Above 0.
  std::size_t missing() const;
  /// The largest request that succeeds now, in bytes; where the upstream refused, the largest that surely does.
  std::size_t fits() const;
};

}  // namespace bytetape::memory

namespace bytetape {

/// A request that could not be served. what() explains: who asked, where the bytes are, whether they are truly short or
/// only fragmented, and what would fit. Nothing has leaked; the process goes on.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(memory::Shortage shortage);
  const memory::Shortage& shortage() const { return *shortage_; }

 private:
  std::shared_ptr<const memory::Shortage> shortage_;  // shared: copying an exception must not throw
};

}  // namespace bytetape
