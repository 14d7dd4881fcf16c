// A storage's bytes go to pinned memory and come back. Both ways are copies of a stream, and the host waits for
// neither: the block is the next one's as soon as its stream, behind the copy, comes to what the host asks for next.
// Copies ahead are waited for one by one, by their marks: a wait for all that their stream was given would be one for
// the copy that has just begun, and neither would run beside the other.
//
// In a step that is being recorded, the host cannot wait. Its copies lie in host memory of the step's own, to which
// only the stream for copies writes, and that stream waits for each copy back. So memory that is let go there is free
// at once.
#include "bytetape/core/device/residency.h"

#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/storage.h"

namespace bytetape {
namespace {

using memory::EventKind;

using detail::core_ambient;

/// Until it has come past what the thread's stream was given so far.
std::uint64_t mark_of(Device device) {
  if (device.is_meta) return 1;
  const Backend& its = backend(device);
  return (core_ambient.capture ? its.recorded_mark : its.mark)(device.index);
}

/// Throws CaptureError if recorded work has the address of the block, or would not find the bytes there.
void check_may_leave(const memory::Block* block, bool stays, Device device) {
  check<CaptureError>(!stays && !detail::is_recorded(block),
                      "a captured step or another library has the address of this memory; it cannot be evicted");
  if (!core_ambient.capture) return;
  check<CaptureError>(core_ambient.capture->owns(block),
                      "a captured step can only evict memory that it allocates; evict this before the step");
  check<CaptureError>(device.is_meta || backend(device).recorded_mark, device, " cannot record copies to the host");
}

/// A replay restores only what it evicted itself. Its host memory holds the bytes of the last replay.
void check_may_come_back(const memory::Block* on_host) {
  if (core_ambient.capture && core_ambient.capture->host_copies().owns(on_host)) return;
  detail::refuse_in_capture("uses memory that was evicted before it: restore() it first");
  check<CaptureError>(!memory::is_in_pool(on_host),
                      "a captured step has offloaded this memory to the host: return the ",
                      "tensor from the step to use it afterwards");
}

/// Logs a copy, or has each replay log it.
void note_copy(memory::Allocator& device, EventKind kind, std::size_t bytes) {
  if (core_ambient.capture)
    core_ambient.capture->host_copies().note(device, kind, bytes);
  else
    device.note_traffic(kind, bytes);
}

}  // namespace

Residency::Residency(void* data, std::size_t bytes, Device device, memory::PinnedMemory* pinned)
    : data_(data), bytes_(bytes), pinned_(pinned), device_(device) {}
Residency::~Residency() = default;

Residency::Booked Residency::booked() const { return is_evicted() ? copy_->residency().held() : held(); }

memory::ScopeIds Residency::owner() const {
  const Booked b = booked();
  return b ? b.allocator->owner_of(b.block) : dropped_owner_;
}

/// Memory that is allocated for the storage belongs to its module, as before.
memory::ScopeIds Residency::scope_of(const char* op) const {
  return memory::ambient.scope.with(owner().module, memory::intern(op), memory::ambient.scope.phase);
}

memory::Block* Residency::allocate_at_home(const StreamOrder& order, memory::Role role) const {
  memory::ScopeIds at_home = memory::ambient.scope;
  at_home.stream = order.home();
  const memory::ScopeGuard guard(at_home);
  return allocator_->allocate(bytes_, role);
}

void Residency::set_source(Ref<ByteSource> source) {
  check<ValueError>(!stays_ && (block_ || bytes_ == 0),
                    "this memory cannot get a source, because a captured step or another library has its address");
  source_ = std::move(source);
}

void Residency::drop(StreamOrder& order) {
  if (!block_) return;
  const memory::ScopeGuard scope(scope_of("drop"));
  check<ValueError>(source_ && !copy_, "only memory that has a source, and is not on the host, can be dropped");
  dropped_role_ = allocator_->role_of(block_);
  dropped_owner_ = owner();
  order.order_free(device_);
  allocator_->deallocate(block_);
  block_ = nullptr;
  data_ = nullptr;
  order.forget_users();
}

void Residency::refill(Storage& s, StreamOrder& order) {
  const memory::ScopeGuard scope(scope_of("refill"));
  memory::Block* const fresh = allocate_at_home(order, dropped_role_);
  hold({allocator_, fresh}, fresh->data);
  order.note_new_memory();
  try {
    source_->refill(s);
  } catch (...) {
    drop(order);
    throw;
  }
}

void Residency::copy_out(StreamOrder& order) {
  if (copy_ || bytes_ == 0) return;
  const memory::ScopeGuard scope(scope_of("evict"));
  check<ValueError>(block_ && !pinned_ && !source_, "only memory of bytetape's own, on a device, can be evicted");
  check_may_leave(block_, stays_, device_);
  memory::PinnedMemory* const pinned = memory::pinned_for(device_);
  check<DeviceError>(pinned, "there is no host memory that is pinned for ", device_, ", to evict to");
  const memory::Role role = allocator_->role_of(block_);
  auto copy = core_ambient.capture ? core_ambient.capture->host_copies().allocate(bytes_, *pinned, role)
                                   : make_ref<Storage>(bytes_, *pinned, role);
  const StreamScope stream(Stream::for_copies());
  order.order_read(device_);
  if (!device_.is_meta) backend(device_).to_pinned(device_.index, data_, copy->data(), bytes_);
  const std::uint64_t mark = mark_of(device_);
  if (!core_ambient.capture) copy->set_read_until(mark);
  order.note_copied_out(mark);
  note_copy(*allocator_, EventKind::to_host, bytes_);
  copy_ = std::move(copy);
}

void Residency::evict(StreamOrder& order) {
  copy_out(order);
  if (!block_) return;
  const memory::ScopeGuard scope(scope_of("evict"));
  check_may_leave(block_, stays_, device_);
  copy_->set_role(allocator_->role_of(block_), owner().module);
  const Booked host = copy_->residency().held();
  allocator_->transfer_saved_refs(block_, *host.allocator, host.block);
  order.order_free(device_);
  allocator_->deallocate(block_);
  block_ = nullptr;
  data_ = nullptr;
  order.forget_users();
}

void Residency::restore(StreamOrder& order) {
  if (!is_evicted()) return;
  const memory::ScopeGuard scope(scope_of("restore"));
  const Booked host = booked();
  check_may_come_back(host.block);
  const memory::StreamId here = memory::ambient.scope.stream, home = order.home();
  memory::Block* const fresh = allocate_at_home(order, host.allocator->role_of(host.block));
  if (here != home) detail::order(device_, home, here);  // which is behind the copy out, since it let go
  std::uint64_t mark = 0;
  try {
    if (!device_.is_meta) backend(device_).transfer({copy_->data(), Device::cpu()}, {fresh->data, device_}, bytes_);
    mark = mark_of(device_);
  } catch (...) {
    if (here != home) detail::order(device_, here, home);
    allocator_->deallocate(fresh);
    throw;
  }
  if (!core_ambient.capture)
    copy_->set_read_until(mark);
  else if (here != Stream::for_copies().number())
    detail::wait_mark(device_, mark, Stream::for_copies().number());
  note_copy(*allocator_, EventKind::to_device, bytes_);
  host.allocator->transfer_saved_refs(host.block, *allocator_, fresh);
  hold({allocator_, fresh}, fresh->data);
  order.note_copied_back(mark);
  copy_ = {};
}

void Residency::drop_copy() {
  if (block_) copy_ = {};
}

}  // namespace bytetape
