#include "bytetape/distributed/host/staged_communicator.h"

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/pinned.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"

namespace bytetape::dist {
namespace {

/// Returns host memory for the elements of v, pinned if it can be, or an undefined tensor.
template <class View>
Tensor on_host(const View& v) {
  constexpr memory::Role role = memory::Role::communication;
  if (!v.defined()) return Tensor();
  try {
    if (memory::pinned_for(v.device)) return empty_pinned(v.shape, v.dtype, v.device, role);
  } catch (const OutOfMemory&) {}  // the system bounds pinned memory more than other memory
  return empty(v.shape, v.dtype, Device(), role);
}

}  // namespace

void StagedCommunicator::run(const CollectiveArgs& a, Workspace) {
  detail::refuse_in_capture("exchanges GPU memory by way of the host, as NCCL does not connect the ranks");
  const bool is_in_place = a.x.defined() && a.y.defined() && a.x.data() == a.y.data() && a.x.shape == a.y.shape;
  const Tensor x = on_host(a.x), y = is_in_place ? x : on_host(a.y);
  if (x.defined()) copy_across(a.x, x.write());
  CollectiveArgs staged = a;
  staged.communicator = &host_;
  staged.x = x.defined() ? x.read() : ConstView();
  staged.y = y.defined() ? y.write() : View();
  run_planned<&CollectiveKernels::exchange>(Device(), staged);
  if (y.defined()) copy_across(y.read(), a.y, is_pinned(y) ? &y.storage() : nullptr);
}

}  // namespace bytetape::dist
