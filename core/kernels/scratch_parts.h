#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/integers.h"

namespace bytetape {

/// Hands out parts of a kernel's scratch, each at a multiple of `alignment` bytes. Without memory the parts are null,
/// and bytes() is what they need.
template <std::size_t alignment>
class ScratchParts {
 public:
  explicit ScratchParts(void* data) : data_(static_cast<char*>(data)) {}
  void* take_bytes(std::size_t bytes) {
    void* const part = data_ ? data_ + bytes_ : nullptr;
    bytes_ += round_up(bytes, alignment);
    return part;
  }
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char* data_;
  std::size_t bytes_ = 0;
};

}  // namespace bytetape
