#pragma once
#include <cstddef>
#include <vector>

#include "bytetape/core/device.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger.h"

namespace bytetape::memory {

/// What the books said when a request failed.
struct Shortage {
  Device device;
  std::size_t requested;     // bytes asked for
  std::size_t limit;         // bytes that may be reserved
  std::size_t unreserved;    // bytes of the limit not yet reserved
  std::size_t largest_free;  // largest cached block that is free
  Statistics statistics;
  std::vector<RoleBytes> by_module, by_op;
};

}  // namespace bytetape::memory

namespace bytetape {

/// A request that could not be served. what() explains: who asked, where the bytes are, whether they are truly short or
/// only fragmented, and what would fit. Nothing has leaked; the process goes on.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(memory::Shortage shortage);
  const memory::Shortage& shortage() const { return shortage_; }

 private:
  memory::Shortage shortage_;
};

}  // namespace bytetape
