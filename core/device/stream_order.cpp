#include "bytetape/core/device/stream_order.h"

#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape {
namespace {

constexpr int for_copies = Stream::for_copies().number();

}  // namespace

void StreamOrder::wait_for_others(Device device, memory::StreamId stream) noexcept {
  const std::uint32_t others = users() & ~device_reads;
  for (int other = 0; other < memory::stream_count; ++other)
    if (other != stream && others & bit(other)) detail::order(device, other, stream);
  // A stream that used restored memory has waited for the copy back. No stream has waited for a copy out.
  if (others & copied || !(others & bit(stream)))
    detail::wait_mark(device, copied_at_.load(std::memory_order_relaxed), stream);
}

void StreamOrder::order_read(Device device) {
  const memory::StreamId here = memory::ambient.scope.stream;
  if (may_read()) return;
  if (const std::uint64_t mark = copied_at_.load(std::memory_order_relaxed); mark && written_on_ == for_copies)
    detail::wait_mark(device, mark, here);
  else
    detail::order(device, written_on_, here);
  used_on_.fetch_or(bit(here), std::memory_order_relaxed);
}

void StreamOrder::order_write(Device device) {
  const memory::StreamId here = memory::ambient.scope.stream;
  wait_for_others(device, here);
  used_on_.store(bit(here), std::memory_order_relaxed);
  written_on_ = here;
  copied_at_.store(0, std::memory_order_relaxed);
}

void StreamOrder::note_copied_out(std::uint64_t mark) {
  copied_at_.store(mark, std::memory_order_relaxed);
  used_on_.fetch_or(copied, std::memory_order_relaxed);
  used_on_.fetch_and(~bit(for_copies), std::memory_order_relaxed);  // the mark is behind all that it did
}

void StreamOrder::forget_users() {
  used_on_ = 0;
  copied_at_ = 0;
}

void StreamOrder::note_new_memory() {
  used_on_ = bit(home_);
  written_on_ = home_;
}

void StreamOrder::note_copied_back(std::uint64_t mark) {
  const memory::StreamId here = memory::ambient.scope.stream;
  used_on_ = here == for_copies ? came_back : bit(here);
  copied_at_ = here == for_copies ? mark : 0;
  written_on_ = here;
}

void StreamOrder::set_read_until(std::uint64_t mark) {
  std::uint64_t before = read_until_.load(std::memory_order_relaxed);
  while (before < mark && !read_until_.compare_exchange_weak(before, mark)) {}
  used_on_.fetch_or(device_reads, std::memory_order_relaxed);
}

void StreamOrder::end_device_reads(memory::PinnedMemory& memory) {
  memory.wait_for(read_until_.exchange(0));
  used_on_.fetch_and(~device_reads, std::memory_order_relaxed);
}

}  // namespace bytetape
