#pragma once
#include <array>
#include <cstddef>
#include <memory>

#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

class Policy;

/// One policy for each stream, made on first use. A stream reuses only the blocks that it freed, in the order of its
/// work.
class Policies {
 public:
  Policies();
  ~Policies();
  Policies(Policies&&) noexcept;
  Policies& operator=(Policies&&) noexcept;

  /// The policy of a stream; null before its first use.
  std::unique_ptr<Policy>& of(StreamId stream) { return all_[stream]; }
  const std::unique_ptr<Policy>& of(StreamId stream) const { return all_[stream]; }
  /// Calls f(policy) for each policy, in the order of streams.
  template <class F>
  void each(F f) const {
    for (const auto& policy : all_)
      if (policy) f(*policy);
  }
  bool has(const Policy* policy) const;
  /// The cached bytes of all policies except `other`.
  std::size_t cached_but_for(const Policy* other) const;
  void release_cached() const;
  bool hold_segments() const;

 private:
  std::array<std::unique_ptr<Policy>, stream_count> all_;
};

}  // namespace bytetape::memory
