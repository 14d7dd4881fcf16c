#include "bytetape/core/memory/allocator/policies.h"

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::memory {

Policies::Policies() = default;
Policies::~Policies() = default;
Policies::Policies(Policies&&) noexcept = default;
Policies& Policies::operator=(Policies&&) noexcept = default;

bool Policies::has(const Policy* policy) const {
  bool found = false;
  each([&](const Policy& p) { found |= &p == policy; });
  return found;
}

std::size_t Policies::cached_but_for(const Policy* other) const {
  std::size_t bytes = 0;
  each([&](const Policy& p) { bytes += &p == other ? 0 : p.cached(); });
  return bytes;
}

void Policies::release_cached() const {
  each([](Policy& p) { p.release_cached(); });
}

bool Policies::hold_segments() const {
  bool any = false;
  each([&](const Policy& p) { any |= p.holds_segments(); });
  return any;
}

}  // namespace bytetape::memory
