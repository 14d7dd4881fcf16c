#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bytetape/core/device.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger.h"

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
  std::vector<RoleBytes> by_module;  ///< indexed by NameId

  /// Bytes that a block would take: `requested` rounded up, 0 counting as 1.
  std::size_t needed() const;
  /// Reserved, but in no block: pieces between blocks.
  std::size_t cached() const { return statistics.reserved.current - statistics.allocated.current; }
  /// The limit allowed it, and the upstream had no more.
  bool refused() const { return needed() <= unreserved; }
  /// Enough is free, in pieces that are each too small or serve smaller requests only.
  bool fragmented() const { return !refused() && needed() <= cached() + unreserved; }
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
