#include "bytetape/core/memory/allocator/meta_allocators.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <utility>

#include "bytetape/core/device/backend.h"

namespace bytetape::memory {

std::unique_ptr<Allocator> make_meta_allocator(Device meta, Allocator::Mode mode, bool is_listed) {
  return std::make_unique<Allocator>(meta, std::make_unique<SimulatedUpstream>(), mode, "", is_listed);
}

std::unique_ptr<PinnedMemory> make_meta_pinned(Device meta, Allocator::Mode mode, bool is_listed) {
  return std::make_unique<PinnedMemory>(meta, std::make_unique<SimulatedUpstream>(), nullptr, mode, is_listed);
}

Allocator& MetaAllocators::allocator(Device meta) {
  for (const Twin& t : all_)
    if (t.memory && t.device == meta) return *t.memory;
  const Allocator::Mode mode = backend(meta).meta_allocator(meta.index).mode();
  return add({meta, make_meta_allocator(meta, mode, false), nullptr});
}

PinnedMemory* MetaAllocators::pinned(Device meta) {
  for (const Twin& t : all_)
    if (t.pinned && t.device == meta) return t.pinned.get();
  const auto of_process = backend(meta).meta_pinned;
  if (!of_process) return nullptr;
  const Allocator::Mode mode = of_process(meta.index).allocator().mode();
  add({meta, nullptr, make_meta_pinned(meta, mode, false)});
  return all_.back().pinned.get();
}

Allocator& MetaAllocators::add(Twin twin) {
  made_(twin.books());
  return all_.emplace_back(std::move(twin)).books();
}

std::vector<Allocator*> MetaAllocators::all() const {
  std::vector<Allocator*> all;
  for (const Twin& t : all_) all.push_back(&t.books());
  return all;
}

// Allocators with live tensors are kept, because tensors refer to them by address.
std::uint64_t MetaAllocators::next_number() {
  static std::atomic<std::uint64_t> made{0};
  return ++made;
}

MetaAllocators::~MetaAllocators() {
  static std::mutex mutex;
  static auto* kept = new std::vector<Twin>;  // never destroyed, like the process's allocators
  for (const Twin& t : all_)
    if (t.pinned) t.pinned->settle();
  const std::lock_guard lock(mutex);
  std::move(all_.begin(), all_.end(), std::back_inserter(*kept));
  std::erase_if(*kept, [](const Twin& t) { return t.books().statistics().allocated.current == 0; });
}

}  // namespace bytetape::memory
