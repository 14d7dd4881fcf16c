// A storage's bytes go to pinned memory and come back. Both ways are copies of a stream, and the host waits for
// neither: the block is the next one's as soon as its stream, behind the copy, comes to what the host asks for next.
// Copies ahead are waited for one by one, by their marks: a wait for all that their stream was given would be one for
// the copy that has just begun, and neither would run beside the other.
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/storage.h"

namespace bytetape {
namespace {

using memory::EventKind;

constexpr int for_copies = Stream::for_copies().number();

/// Until it has come past what the thread's stream was given so far.
std::uint64_t mark_of(Device device) { return device.is_meta ? 1 : backend(device).mark(device.index); }

}  // namespace

/// What is taken for the storage is its module's, as before.
memory::ScopeIds Storage::scope_of(const char* op) const {
  return memory::ambient.scope.with(module(), memory::intern(op), memory::ambient.scope.phase);
}

void Storage::copy_out() {
  if (elsewhere_ || bytes_ == 0) return;
  const memory::ScopeGuard scope(scope_of("evict"));
  check<ValueError>(block_ && !pinned_, "only memory of bytetape's own, on a device, can be evicted");
  detail::refuse_in_capture("evicts memory");
  check<CaptureError>(!stays_, "a captured step works with this memory where it is; it cannot be evicted");
  memory::PinnedMemory* const pinned = memory::pinned_for(device_);
  check<DeviceError>(pinned, "there is no host memory that is pinned for ", device_, ", to evict to");
  auto copy = make_ref<Storage>(bytes_, *pinned, role());
  const StreamScope stream(Stream::for_copies());
  before_read();
  if (!device_.is_meta) backend(device_).to_pinned(device_.index, data_, copy->data_, bytes_);
  const std::uint64_t mark = mark_of(device_);
  copy->set_read_until(mark);
  copied_at_.store(mark, std::memory_order_relaxed);
  used_on_.fetch_or(copied, std::memory_order_relaxed);
  used_on_.fetch_and(~bit(for_copies), std::memory_order_relaxed);  // the mark is behind all that it did
  allocator_->note_traffic(EventKind::to_host, bytes_);
  elsewhere_ = std::move(copy);
}

void Storage::evict() {
  copy_out();
  if (!block_) return;
  const memory::ScopeGuard scope(scope_of("evict"));
  elsewhere_->set_role(role(), module());
  allocator_->transfer_saved_refs(block_, *elsewhere_->allocator_, elsewhere_->block_);
  release();
  block_ = nullptr;
  data_ = nullptr;
  used_on_ = 0;
  copied_at_ = 0;
}

void Storage::restore() {
  if (!is_evicted()) return;
  const memory::ScopeGuard scope(scope_of("restore"));
  detail::refuse_in_capture("uses memory that was evicted");
  Storage fresh = [&] {
    memory::ScopeIds at_home = memory::ambient.scope;
    at_home.stream = home_;
    const memory::ScopeGuard home(at_home);
    return Storage(bytes_, device_, elsewhere_->role());
  }();
  const memory::StreamId here = memory::ambient.scope.stream;
  if (here != home_) detail::order(device_, home_, here);  // which is behind the copy out, since it let go
  fresh.used_on_.fetch_or(bit(here), std::memory_order_relaxed);
  if (!device_.is_meta) backend(device_).transfer({elsewhere_->data_, Device::cpu()}, {fresh.data_, device_}, bytes_);
  const std::uint64_t mark = mark_of(device_);
  elsewhere_->set_read_until(mark);
  allocator_->note_traffic(EventKind::to_device, bytes_);
  elsewhere_->allocator_->transfer_saved_refs(elsewhere_->block_, *allocator_, fresh.block_);
  block_ = std::exchange(fresh.block_, nullptr);
  data_ = block_->data;
  used_on_ = here == for_copies ? came_back : bit(here);
  copied_at_ = here == for_copies ? mark : 0;
  written_on_ = here;
  elsewhere_ = {};
}

/// For who needs it now.
void Storage::restore_async() {
  restore();
  if (watch_) watch_->restored(*this);
}

}  // namespace bytetape
