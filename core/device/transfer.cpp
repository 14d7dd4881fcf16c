#include "bytetape/core/device/transfer.h"

#include <algorithm>
#include <cstring>

#include "bytetape/core/device/capture.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape {
namespace {

using memory::PinnedMemory;
using memory::Role;

constexpr std::size_t piece = std::size_t{4} << 20;  // of what is sent by way of pinned memory

std::size_t byte_count(const ConstView& v) { return static_cast<std::size_t>(v.numel()) * size_of(v.dtype); }
bool is_host(Device d) { return d.type == DeviceType::cpu; }

/// The view itself where it lies as it travels, else dense memory beside it that does: the host's is pinned, where that
/// is given.
class Staged {
 public:
  Staged(const ConstView& v, DType dtype, const Strides& strides, PinnedMemory* pinned) {
    if (v.dtype == dtype && same_layout(v.shape, v.strides, strides)) return;
    const std::size_t bytes = static_cast<std::size_t>(v.numel()) * size_of(dtype);
    memory_ = pinned && is_host(v.device) ? make_ref<Storage>(bytes, *pinned, Role::workspace)
                                          : make_ref<Storage>(bytes, v.device, Role::workspace);
    dense_ = View(memory_->data(), dtype, v.device, v.shape, strides);
  }
  explicit operator bool() const { return static_cast<bool>(memory_); }
  const View& view() const { return dense_; }
  Storage* memory() const { return memory_.get(); }

 private:
  Ref<Storage> memory_;
  View dense_;
};

/// A meta twin is where its device is.
bool stand_for_one(Device a, Device b) { return a.type == b.type && a.index == b.index; }

/// Bytes between the host and a device, or two devices.
class Wire {
 public:
  Wire(Device from, Device to)
      : from_(from), to_(to), device_(is_host(to) ? from : to), is_meta_(from.is_meta || to.is_meta) {}
  Device device() const { return device_; }

  void send(const void* from, void* to, std::size_t bytes) const {
    if (is_meta_) return;
    if (const auto transfer = backend(device_).transfer)
      transfer({from, from_}, {to, to_}, bytes);
    else
      std::memcpy(to, from, bytes);
  }
  /// The same from pinned memory, whose holder may let go at once.
  void send_pinned(Storage& pinned, const void* from, void* to, std::size_t bytes) const {
    send(from, to, bytes);
    pinned.set_read_until(is_meta_ ? 1 : backend(device_).mark(device_.index));
  }
  /// The same from elsewhere on the host, by way of pinned memory as long as there is some.
  void send_pieces(PinnedMemory& by_way_of, const void* from, void* to, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes; done += piece) {
      const std::size_t n = std::min(piece, bytes - done);
      Ref<Storage> between;
      try {
        between = make_ref<Storage>(n, by_way_of, Role::workspace);
      } catch (const OutOfMemory&) {
        return send(static_cast<const char*>(from) + done, static_cast<char*>(to) + done, bytes - done);
      }
      if (!is_meta_) std::memcpy(between->data(), static_cast<const char*>(from) + done, n);
      send_pinned(*between, between->data(), static_cast<char*>(to) + done, n);
    }
  }

 private:
  Device from_, to_, device_;
  bool is_meta_;
};

void move_bytes(const ConstView& from, const View& to, PinnedMemory* by_way_of, Storage* of_x) {
  using memory::EventKind;
  const bool to_host = is_host(to.device);
  const Wire wire(from.device, to.device);
  detail::refuse_in_capture(to_host ? "waits for the device, to read from it: return the tensor, and read it there"
                                    : "copies to the device what a replay would not read again: pass the step a tensor"
                                      " that is there");
  memory::Allocator& books = memory::allocator(wire.device());
  books.note_traffic(to_host ? EventKind::to_host : EventKind::to_device, byte_count(from));
  if (to_host) books.note_traffic(EventKind::wait, 0);
  if (!is_host(from.device) || !by_way_of)
    wire.send(from.data(), to.data(), byte_count(from));
  else if (of_x && of_x->pinned() == by_way_of)
    wire.send_pinned(*of_x, from.data(), to.data(), byte_count(from));
  else
    wire.send_pieces(*by_way_of, from.data(), to.data(), byte_count(from));
}

}  // namespace

void copy_across(const ConstView& x, const View& y, Storage* of_x) {
  if (stand_for_one(x.device, y.device)) return run<&CopyKernels::copy>(y.device, x, y);
  if (y.numel() == 0) return;
  const DType dtype = size_of(y.dtype) < size_of(x.dtype) ? y.dtype : x.dtype;
  const Strides strides = is_dense(y.shape, y.strides)   ? y.strides
                          : is_dense(x.shape, x.strides) ? x.strides
                                                         : contiguous_strides(y.shape);
  PinnedMemory* const by_way_of = memory::pinned_for(is_host(y.device) ? x.device : y.device);
  const Staged from(x, dtype, strides, by_way_of), to(y, dtype, strides, by_way_of);
  if (from && !y.device.is_meta) run<&CopyKernels::copy>(x.device, x, from.view());
  move_bytes(from ? from.view() : x, to ? to.view() : y, by_way_of, from ? from.memory() : of_x);
  if (to) run<&CopyKernels::copy>(y.device, to.view(), y);
}

void copy_across(const Tensor& x, const Tensor& y) { copy_across(x.read(), y.write(), &x.storage()); }

}  // namespace bytetape
