#include "bytetape/core/transfer.h"

#include <cstring>
#include <optional>

#include "bytetape/core/capture.h"
#include "bytetape/core/dispatch.h"

namespace bytetape {
namespace {

std::size_t byte_count(const ConstView& v) { return static_cast<std::size_t>(v.numel()) * size_of(v.dtype); }

/// The view itself where it lies as it travels, else dense memory beside it that does.
class Staged {
 public:
  Staged(const ConstView& v, DType dtype, const Strides& strides) {
    if (v.dtype == dtype && same_layout(v.shape, v.strides, strides)) return;
    memory_.emplace(static_cast<std::size_t>(v.numel()) * size_of(dtype), v.device);
    dense_ = View(memory_->get().data, dtype, v.device, v.shape, strides);
  }
  explicit operator bool() const { return memory_.has_value(); }
  const View& view() const { return dense_; }

 private:
  std::optional<HeldWorkspace> memory_;
  View dense_;
};

/// A meta twin is where its device is.
bool stand_for_one(Device a, Device b) { return a.type == b.type && a.index == b.index; }

void move_bytes(const ConstView& from, const View& to) {
  using memory::EventKind;
  const bool to_host = to.device.type == DeviceType::cpu;
  const Device device = to_host ? from.device : to.device;
  detail::refuse_in_capture(to_host ? "waits for the device, to read from it: return the tensor, and read it there"
                                    : "copies to the device what a replay would not read again: pass the step a tensor"
                                      " that is there");
  memory::Allocator& books = memory::allocator(device);
  books.note_traffic(to_host ? EventKind::to_host : EventKind::to_device, byte_count(from));
  if (to_host) books.note_traffic(EventKind::wait, 0);
  if (from.device.is_meta || to.device.is_meta) return;
  if (const auto transfer = backend(device).transfer)
    transfer({from.data(), from.device}, {to.data(), to.device}, byte_count(from));
  else
    std::memcpy(to.data(), from.data(), byte_count(from));
}

}  // namespace

void copy_across(const ConstView& x, const View& y) {
  if (stand_for_one(x.device, y.device)) return run<&Kernels::copy>(y.device.is_meta ? y.device : x.device, x, y);
  if (y.numel() == 0) return;
  const DType dtype = size_of(y.dtype) < size_of(x.dtype) ? y.dtype : x.dtype;
  const Strides strides = is_dense(y.shape, y.strides)   ? y.strides
                          : is_dense(x.shape, x.strides) ? x.strides
                                                         : contiguous_strides(y.shape);
  const Staged from(x, dtype, strides), to(y, dtype, strides);
  if (from) run<&Kernels::copy>(x.device, x, from.view());
  move_bytes(from ? from.view() : x, to ? to.view() : y);
  if (to) run<&Kernels::copy>(y.device, to.view(), y);
}

}  // namespace bytetape
