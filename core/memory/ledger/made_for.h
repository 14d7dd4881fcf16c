#pragma once
#include "bytetape/core/dtype.h"
#include "bytetape/core/memory/recording/recording_hooks.h"
#include "bytetape/core/shape.h"

namespace bytetape::memory {

/// The tensor that this thread is about to take a block for, for a recording: "f32 64x3x32x32". 0 where none runs.
inline constinit thread_local NameId made_for = 0;

/// Sets it for a C++ scope.
class MadeFor {
 public:
  [[nodiscard]] MadeFor(DType dtype, const Shape& shape) {
    if (is_recording.load(std::memory_order_relaxed)) [[unlikely]]
      made_for = name_of_tensor(dtype, shape);
  }
  ~MadeFor() { made_for = 0; }
  MadeFor(const MadeFor&) = delete;
  MadeFor& operator=(const MadeFor&) = delete;

 private:
  static NameId name_of_tensor(DType dtype, const Shape& shape);
};

}  // namespace bytetape::memory
