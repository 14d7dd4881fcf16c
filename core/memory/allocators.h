#pragma once
#include <functional>

namespace bytetape::memory {

class Allocator;

/// Adds an allocator to the process's list, and removes it. The allocator's constructor and destructor call these.
void enlist(Allocator& a);
void delist(Allocator& a);
/// Notes a new limit in a running recording. The caller must not hold the allocator's locks.
void note_limit(const Allocator& a);
/// Calls f(allocator) for each listed allocator, the oldest first. The list does not change during the calls.
void each_allocator(const std::function<void(Allocator&)>& f);

}  // namespace bytetape::memory
