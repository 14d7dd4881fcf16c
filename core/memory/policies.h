#pragma once
#include <array>
#include <memory>

#include "bytetape/core/memory/policy.h"
#include "bytetape/core/memory/scope.h"

namespace bytetape::memory {

/// A policy for each stream, made when it is first used: what a stream frees, it alone takes again, in the order of its
/// work.
class Policies {
 public:
  /// Null where there is none yet.
  std::unique_ptr<Policy>& of(StreamId stream) { return all_[stream]; }
  const std::unique_ptr<Policy>& of(StreamId stream) const { return all_[stream]; }
  /// f(policy) for each, by stream.
  template <class F>
  void each(F f) const {
    for (const auto& policy : all_)
      if (policy) f(*policy);
  }
  bool has(const Policy* policy) const {
    bool found = false;
    each([&](const Policy& p) { found |= &p == policy; });
    return found;
  }
  /// Bytes of their caches, but for one policy's.
  std::size_t cached_but_for(const Policy* other) const {
    std::size_t bytes = 0;
    each([&](const Policy& p) { bytes += &p == other ? 0 : p.cached(); });
    return bytes;
  }
  void release_cached() const {
    each([](Policy& p) { p.release_cached(); });
  }
  bool hold_segments() const {
    bool any = false;
    each([&](const Policy& p) { any |= p.holds_segments(); });
    return any;
  }

 private:
  std::array<std::unique_ptr<Policy>, stream_count> all_;
};

}  // namespace bytetape::memory
