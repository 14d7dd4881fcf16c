#include "bytetape/distributed/host/staged_communicator.h"

#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"

namespace bytetape::dist {
namespace {

/// Returns host memory for the elements of v, or an undefined tensor.
template <class View>
Tensor on_host(const View& v) {
  return v.defined() ? empty(v.shape, v.dtype, Device(), memory::Role::communication) : Tensor();
}

}  // namespace

void StagedCommunicator::run(const CollectiveArgs& a, Workspace) {
  detail::refuse_in_capture("exchanges GPU memory by way of the host, as NCCL does not connect the ranks");
  const bool is_in_place = a.x.defined() && a.y.defined() && a.x.data() == a.y.data();
  const Tensor x = on_host(a.x), y = is_in_place ? x : on_host(a.y);
  if (x.defined()) copy_across(a.x, x.write());
  CollectiveArgs staged = a;
  staged.communicator = &host_;
  staged.x = x.defined() ? x.read() : ConstView();
  staged.y = y.defined() ? y.write() : View();
  run_planned<&CollectiveKernels::exchange>(Device(), staged);
  if (y.defined()) copy_across(y.read(), a.y);
}

}  // namespace bytetape::dist
