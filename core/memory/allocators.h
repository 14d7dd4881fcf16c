#pragma once
#include <cstdint>
#include <functional>

namespace bytetape::memory {

class Allocator;

/// Adds an allocator to the process's list, and removes it. The allocator's constructor and destructor call these.
void enlist(Allocator& a);
void delist(Allocator& a);
/// Notes a new limit in a running recording. The caller must not hold the allocator's locks.
void note_limit(const Allocator& a);
/// Reports to the recording that this thread began step `number`, or is about to end it. The caller must not hold the
/// allocator's locks.
void note_step(const Allocator& a, std::uint32_t number, bool begins);
/// Calls f(allocator) for each listed allocator, the oldest first. The list does not change during the calls.
void each_allocator(const std::function<void(Allocator&)>& f);

}  // namespace bytetape::memory
