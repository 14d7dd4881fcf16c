#pragma once
#include "bytetape/core/dtype.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/recording/recording_hooks.h"
#include "bytetape/core/shape.h"

namespace bytetape::memory {

/// Sets Ambient::made_for for a C++ scope while a Recording runs: the next block belongs to a tensor of `dtype` and
/// `shape`.
class MadeFor {
 public:
  [[nodiscard]] MadeFor(DType dtype, const Shape& shape) {
    if (is_recording.load(std::memory_order_relaxed)) [[unlikely]]
      ambient.made_for = name_of_tensor(dtype, shape);
  }
  ~MadeFor() { ambient.made_for = 0; }
  MadeFor(const MadeFor&) = delete;
  MadeFor& operator=(const MadeFor&) = delete;

 private:
  static NameId name_of_tensor(DType dtype, const Shape& shape);
};

}  // namespace bytetape::memory
