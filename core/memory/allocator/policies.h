#pragma once
#include <array>
#include <cstddef>
#include <memory>

#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

class Policy;

/// A policy for each stream, made when it is first used: what a stream frees, it alone takes again, in the order of its
/// work.
class Policies {
 public:
  Policies();
  ~Policies();
  Policies(Policies&&) noexcept;
  Policies& operator=(Policies&&) noexcept;

  /// Null where there is none yet.
  std::unique_ptr<Policy>& of(StreamId stream) { return all_[stream]; }
  const std::unique_ptr<Policy>& of(StreamId stream) const { return all_[stream]; }
  /// f(policy) for each, by stream.
  template <class F>
  void each(F f) const {
    for (const auto& policy : all_)
      if (policy) f(*policy);
  }
  bool has(const Policy* policy) const;
  /// Bytes of their caches, but for one policy's.
  std::size_t cached_but_for(const Policy* other) const;
  void release_cached() const;
  bool hold_segments() const;

 private:
  std::array<std::unique_ptr<Policy>, stream_count> all_;
};

}  // namespace bytetape::memory
