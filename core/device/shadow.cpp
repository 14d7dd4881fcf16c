#include "bytetape/core/device/shadow.h"

#include <mutex>

#include "bytetape/core/device/capture.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {
namespace {

/// Notes that the copy of s was updated. It counts as stale all the same while another library may write s.
void set_current(Storage& s) { s.shadow().version = s.is_exposed() ? s.version() - 1 : s.version(); }

/// Threads may run one model.
std::mutex& refreshing() {
  static std::mutex one;
  return one;
}

bool is_current(Storage& s) { return s.shadow().storage && s.shadow().version == s.version() && !s.is_exposed(); }

Ref<Storage> new_copy(const Storage& s, DType dtype) {
  const memory::ModuleScope module(s.module());
  return make_ref<Storage>(s.bytes() / sizeof(float) * size_of(dtype), s.device(), memory::Role::autocast_copy);
}

Ref<Storage> new_shadow(const Storage& s, DType dtype) {
  const memory::OutsidePools outside;  // a captured step brings it up to date before it runs
  return new_copy(s, dtype);
}

void copy_elements(const Storage& s, Storage& copy, DType dtype) {
  const Shape all{static_cast<std::int64_t>(s.bytes() / sizeof(float))};
  copy.before_write();
  run<&CopyKernels::copy>(s.device(), ConstView(s.data(), DType::f32, s.device(), all, {1}),
                          View(copy.data(), dtype, s.device(), all, {1}));
  copy.bump_version();
}

void copy_into_shadow(Storage& s) {
  copy_elements(s, *s.shadow().storage, s.shadow().dtype);
  set_current(s);
  // A step that fails while it is recorded has copied nothing.
  if (detail::core_ambient.capture)
    detail::core_ambient.capture->on_failure([s = Ref<Storage>(&s)] { s->shadow().storage = {}; });
}

Tensor as_in(const Tensor& x, const Storage::Shadow& shadow) {
  auto impl = make_ref<TensorImpl>(x.shape(), x.strides(), shadow.dtype);
  impl->storage = shadow.storage;
  impl->offset = x.storage_offset();
  return Tensor(std::move(impl));
}

}  // namespace

Tensor shadow_of(const Tensor& x, DType dtype) {
  x.read();  // seen by who captures the step, though a copy is what is read
  Storage& s = x.storage();
  if (s.is_exposed()) {  // nobody counts the writes of another library
    const Ref<Storage> copy = new_copy(s, dtype);
    copy_elements(s, *copy, dtype);
    return as_in(x, {copy, dtype});
  }
  const std::lock_guard lock(refreshing());
  if (!s.shadow().storage || s.shadow().dtype != dtype) s.shadow() = {new_shadow(s, dtype), dtype, s.version() - 1};
  if (!is_current(s)) copy_into_shadow(s);
  if (detail::core_ambient.capture) detail::core_ambient.capture->uses_shadow(s, s.shadow());
  return as_in(x, s.shadow());
}

Tensor current_shadow(const Tensor& x) {
  const std::lock_guard lock(refreshing());
  Storage& s = x.storage();
  if (!is_current(s)) return {};
  if (detail::core_ambient.capture) detail::core_ambient.capture->uses_shadow(s, s.shadow());
  return as_in(x, s.shadow());
}

void note_write_with_shadow(const Tensor& x) {
  const std::lock_guard lock(refreshing());
  Storage& s = x.storage();
  const bool both = is_current(s);
  s.bump_version();
  if (!both) return;
  s.shadow().storage->bump_version();
  set_current(s);
}

void detail::restore_shadow(Storage& s, const Storage::Shadow& captured) {
  const std::lock_guard lock(refreshing());
  if (!(s.shadow().storage == captured.storage)) s.shadow() = {captured.storage, captured.dtype, s.version() - 1};
  if (!is_current(s)) copy_into_shadow(s);
}

void detail::discard_shadow(Storage& s) {
  const std::lock_guard lock(refreshing());
  s.shadow() = {};
}

void detail::note_written_shadow(Storage& s) {
  const std::lock_guard lock(refreshing());
  set_current(s);
}

}  // namespace bytetape
