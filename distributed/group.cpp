#include "bytetape/distributed/group.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <utility>

#include "bytetape/core/ambient.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/parallel.h"
#include "bytetape/distributed/hash.h"
#include "bytetape/distributed/host/host_communicator.h"
#include "bytetape/distributed/host/mpi.h"
#include "bytetape/distributed/launcher.h"

namespace bytetape::dist {

using memory::Op;

struct Group::State {
  std::uint64_t id = 0;      // equal on all ranks
  std::uint64_t splits = 0;  // so far
  int rank = 0;
  bool is_simulated = false;
  std::vector<int> ranks;  // in the world
  std::mutex making;
  std::unique_ptr<HostCommunicator> host;  // made by its first use
};

namespace {

std::vector<int> counted(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Gives this process its share of the host's cores, unless the user has chosen a number. A launcher may have bound it
/// to fewer.
void share_host(const Launch& launch) {
  if (launch.local_size <= 1 || std::getenv("OMP_NUM_THREADS")) return;
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  set_num_threads(std::min(num_threads(), std::max(1, cores / launch.local_size)));
}

}  // namespace

int Group::rank() const { return state_->rank; }
int Group::size() const { return static_cast<int>(state_->ranks.size()); }
bool Group::is_simulated() const { return state_->is_simulated; }
const std::vector<int>& Group::world_ranks() const { return state_->ranks; }

Group Group::split(const std::vector<int>& colours) const {
  const Op<"split"> op;
  check<ValueError>(colours.size() == state_->ranks.size(), "expected a colour for each of ", size(), " ranks, got ",
                    colours.size());
  auto part = std::make_shared<State>();
  part->is_simulated = state_->is_simulated;
  Hash id;
  id.add(state_->id).add(state_->splits++);
  const int own = colours[static_cast<std::size_t>(rank())];
  for (std::size_t r = 0; r < colours.size(); ++r) {
    if (colours[r] != own) continue;
    if (static_cast<int>(r) == rank()) part->rank = static_cast<int>(part->ranks.size());
    part->ranks.push_back(state_->ranks[r]);
    id.add(static_cast<std::uint64_t>(state_->ranks[r]));
  }
  part->id = id.get();
  return Group(std::move(part));
}

Communicator* Group::communicator(Device device) const {
  if (device.is_meta || size() == 1) return nullptr;
  check<DeviceError>(!is_simulated(), "the other ranks of a predicted group are not there: use tensors on ",
                     "default_device(), which is a meta device");
  check<DeviceError>(device.type == DeviceType::cpu, "collectives of ", device,
                     " are not implemented: ", "copy the tensor to the CPU");
  check<DeviceError>(mpi::is_running(), "no MPI connects the ", size(), " ranks: ", mpi::why_not());
  const std::lock_guard lock(state_->making);
  if (!state_->host) state_->host = std::make_unique<HostCommunicator>(state_->ranks, state_->id);
  return state_->host.get();
}

Group init(std::optional<std::chrono::milliseconds> timeout) {
  const Op<"dist::init"> op;
  check<ValueError>(!timeout || timeout->count() > 0, "expected a timeout above 0, got ",
                    timeout.value_or(std::chrono::milliseconds()).count(), " ms");
  const auto group_of = [](int rank, int size, bool is_simulated) {
    auto state = std::make_shared<Group::State>();
    state->rank = rank;
    state->is_simulated = is_simulated;
    state->ranks = counted(size);
    return Group(std::move(state));
  };
  const detail::SimulatedRank simulated = detail::core_ambient.simulated_rank;
  if (simulated.is_active && simulated.world_size > 0) return group_of(simulated.rank, simulated.world_size, true);
  static const Group world = [&] {
    const Launch launch = read_launch();
    mpi::start(launch);
    share_host(launch);
    return group_of(launch.rank, launch.size, false);
  }();
  if (simulated.is_active) return group_of(world.rank(), world.size(), true);
  if (timeout) mpi::set_timeout(std::min<std::chrono::milliseconds>(*timeout, std::chrono::years(1)));
  return world;
}

}  // namespace bytetape::dist
