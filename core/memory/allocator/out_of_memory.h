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
#include "bytetape/core/memory/ledger/external.h"
#include "bytetape/core/memory/ledger/ledger.h"
#include "bytetape/core/memory/ledger/outside.h"

namespace bytetape::memory {

/// The state of an allocator when a request failed, after unused segments were returned.
struct Shortage {
  Device device;
  std::string name;              ///< the memory's name: "cuda:1", "pinned:cuda"
  std::size_t requested = 0;     ///< bytes requested
  std::size_t limit = 0;         ///< bytes that may be reserved
  std::size_t unreserved = 0;    ///< bytes of the limit not yet reserved
  std::size_t largest_free = 0;  ///< the largest request that the cache can serve
  std::size_t unusable = 0;      ///< cached bytes that can serve smaller requests only
  std::size_t elsewhere = 0;     ///< cached bytes of other streams or captured steps
  Statistics statistics;
  std::size_t capacity = 0;              ///< bytes of the upstream
  std::uint32_t step = 0;                ///< the thread's open step; 0: none
  Phase phase = Phase::setup;            ///< the thread's phase
  std::optional<Outside> outside;        ///< memory used beyond the ledger on a GPU; none if it cannot be measured
  External external;                     ///< memory of other libraries that tensors use; not in `outside`
  std::vector<Holding> holders;          ///< by module, op and role, the largest first
  std::size_t max_fit_if_compacted = 0;  ///< the largest request that would fit if all blocks were laid out anew

  /// Bytes of a GPU's memory that are not reserved here: `outside` and `external`.
  std::size_t unledgered() const { return outside ? outside->bytes + external.bytes : 0; }
  /// The size of the block: `requested` rounded up, with 0 counting as 1.
  std::size_t needed() const;
  /// Reserved bytes that no block uses.
  std::size_t cached() const { return statistics.reserved.current - statistics.allocated.current; }
  /// Bytes that can still be reserved: `unreserved`, or what the device has left if that is less.
  std::size_t available() const;
  /// All free bytes, cached or not yet reserved.
  std::size_t free() const { return cached() + available(); }
  /// Whether the upstream refused a request that the limit, and the device as far as known, allowed.
  bool refused() const { return needed() <= available(); }
  /// Whether enough bytes are free, but in pieces that are too small or serve smaller requests only.
  bool fragmented() const { return !refused() && needed() <= free(); }
  /// The missing bytes, above 0: `needed()` less fits() if fragmented or refused, else less free().
  std::size_t missing() const;
  /// The largest request that succeeds now, in bytes. If the upstream refused, the largest that is certain to.
  std::size_t fits() const;
};

}  // namespace bytetape::memory

namespace bytetape {

/// Thrown if a request cannot be served. what() explains who asked, where the bytes are, whether memory is full or
/// fragmented, and what would fit. Nothing is leaked, and the process can continue.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(memory::Shortage shortage);
  const memory::Shortage& shortage() const { return *shortage_; }

 private:
  std::shared_ptr<const memory::Shortage> shortage_;  // shared, because copying an exception must not throw
};

}  // namespace bytetape
