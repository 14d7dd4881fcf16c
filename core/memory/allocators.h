#pragma once
#include <functional>

namespace bytetape::memory {

class Allocator;

/// An allocator tells the process of itself when it is made, and when it ends.
void enlist(Allocator& a);
void delist(Allocator& a);
/// And when it has a new limit. Its locks must not be held.
void note_limit(const Allocator& a);
/// f(allocator) for each of the process, the oldest first. None is made and none ends meanwhile.
void each_allocator(const std::function<void(Allocator&)>& f);

}  // namespace bytetape::memory
