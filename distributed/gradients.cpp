#include "bytetape/distributed/gradients.h"

#include <map>
#include <mutex>
#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/collective.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/distributed/hash.h"

namespace bytetape::dist {
namespace {

/// Returns a hash of the tensors' names, dtypes, shapes and strides, and of which require grad.
std::uint64_t layout_of(const NamedTensors& tensors) {
  Hash hash;
  for (const auto& [name, x] : tensors) {
    hash.add(name).add(static_cast<std::uint64_t>(x.dtype())).add(x.requires_grad());
    for (int dim = 0; dim < x.rank(); ++dim)
      hash.add(static_cast<std::uint64_t>(x.shape()[dim])).add(static_cast<std::uint64_t>(x.strides()[dim]));
  }
  return hash.get();
}

}  // namespace

std::uint64_t next_number(const Group& group, const nn::Module& module) {
  static std::mutex counting;
  static std::map<std::vector<int>, std::uint64_t> counts;  // by the ranks of a group
  const std::vector<Tensor> parameters = module.parameters();
  if (group.is_simulated() || parameters.empty() || parameters.front().device().is_meta) return 0;
  const std::lock_guard lock(counting);
  return ++counts[group.world_ranks()];
}

void check_alike(const nn::Module& module, const Group& group) {
  try {
    barrier(group, Hash().add(layout_of(module.named_parameters())).add(layout_of(module.named_buffers())).get());
  } catch (const DistributedError& e) {
    fail<DistributedError>(
        "the module may have other parameters or buffers on another rank (name, shape, strides, dtype ",
        "or requires_grad): ", e.what());
  }
}

void RankFaults::begin(Device device) {
  const OutsideModules outside(name_);
  exchanged_on_ = {};
  if (!backend(device).faults_thrown) return;
  if (flag_.defined() && flag_.device() == device)
    flag_.write();  // waits for the last use now; a later wait would include exchanges of this backward
  else
    flag_ = zeros({}, DType::f32, device, memory::Role::communication);
}

void RankFaults::exchange(const Group& group, Stream beside, std::uint64_t tag) {
  if (!flag_.defined()) return;
  const NoGrad no_grad;
  const OutsideModules outside(name_);
  exchanged_on_ = current_stream();
  run<&CollectiveKernels::note_fault>(flag_.device(), flag_.write(), group.rank());
  const StreamScope scope(beside);
  all_reduce_(flag_, group, ReduceOp::max, tag);
}

void RankFaults::take() {
  const OutsideModules outside(name_);
  const auto leave = [&] { run<&CollectiveKernels::leave_fault>(flag_.device(), flag_.read()); };
  const std::optional<Stream> noted = std::exchange(exchanged_on_, {});
  if (!noted) return;
  leave();
  if (noted->number() == current_stream().number()) return;
  const StreamScope scope(*noted);  // the step may be taken there
  leave();
}

void copy_gradients(const std::vector<std::pair<Tensor, Tensor>>& moves) {
  std::vector<ConstView> same, low;
  std::vector<View> to_same, to_low;
  for (const auto& [g, y] : moves) {
    const bool is_alike = is_dense(g.shape(), g.strides()) && g.strides() == y.strides();
    if (is_alike && g.dtype() == y.dtype()) {
      same.push_back(g.read());
      to_same.push_back(y.write());
    } else if (is_alike && size_of(g.dtype()) == 2 && y.dtype() == DType::f32) {
      low.push_back(g.read());
      to_low.push_back(y.write());
    } else {
      copy_(y, g);
    }
  }
  if (!same.empty()) run<&CopyKernels::copy_all>(moves.front().second.device(), same, to_same);
  if (!low.empty()) run<&CopyKernels::widen_all>(moves.front().second.device(), low, to_low);
}

}  // namespace bytetape::dist
