#include "bytetape/distributed/group.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "bytetape/core/ambient.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/kernels/collective.h"
#include "bytetape/core/kernels/table.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/parallel.h"
#include "bytetape/distributed/between_processes.h"
#include "bytetape/distributed/hash.h"
#include "bytetape/distributed/host/channel.h"
#include "bytetape/distributed/host/host_communicator.h"
#include "bytetape/distributed/host/staged_communicator.h"
#include "bytetape/distributed/launcher.h"
#include "bytetape/distributed/watch.h"

namespace bytetape::dist {

struct Group::State {
  std::uint64_t id = 0;      // equal on all ranks
  std::uint64_t splits = 0;  // so far
  int rank = 0;
  bool is_simulated = false;
  std::vector<int> ranks;  // in the world
  std::mutex making;
  std::unique_ptr<HostCommunicator> host;                   // made by its first use
  std::map<int, std::shared_ptr<Communicator>> of_devices;  // by the number of the GPU, each made by its first use

  ~State() {
    for (const auto& [index, communicator] : of_devices) unwatch(*communicator);
  }
  HostCommunicator& on_host();
  std::shared_ptr<Communicator> connect(Device device);
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
  const memory::Op<"split"> op;
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
  const bool is_cpu = device.type == DeviceType::cpu;
  check<DeviceError>(is_cpu ? channel::carries_tensors() : channel::is_running(), "no MPI connects the ", size(),
                     " ranks: ", channel::why_not());
  const std::lock_guard lock(state_->making);
  if (is_cpu) return &state_->on_host();
  auto& communicator = state_->of_devices[device.index];
  if (!communicator) communicator = state_->connect(device);
  return communicator.get();
}

Communicator* Group::between_processes() const {
  if (size() == 1 || is_simulated()) return nullptr;
  check<DeviceError>(channel::is_running(), "no MPI connects the ", size(), " ranks: ", channel::why_not());
  const std::lock_guard lock(state_->making);
  return &state_->on_host();
}

HostCommunicator& Group::State::on_host() {
  if (!host) host = std::make_unique<HostCommunicator>(ranks, id);
  return *host;
}

/// Connects the ranks' GPUs: by NCCL, or by way of the host if NCCL is missing or ranks share a GPU. All ranks come
/// here in their first collective on a GPU's memory.
std::shared_ptr<Communicator> Group::State::connect(Device device) {
  const KernelTable& kernels = *backend(device).kernels;
  const auto connect_ranks = kernels.find(&CollectiveKernels::connect);
  const auto identity = kernels.find(&CollectiveKernels::identity);
  const Processes processes{&on_host(), rank, static_cast<int>(ranks.size())};
  const auto gpus = gather(connect_ranks ? static_cast<std::int64_t>(identity(device)) : 0, processes);
  const bool is_shared = std::set<std::int64_t>(gpus.begin(), gpus.end()).size() < gpus.size();
  if (is_shared || std::ranges::count(gpus, 0) > 0) {
    check<DeviceError>(channel::carries_tensors(), "NCCL cannot connect the ranks, as ",
                       is_shared ? "several use one GPU" : "a rank's build lacks it",
                       ", and no MPI does: ", channel::why_not());
    return std::make_shared<StagedCommunicator>(on_host());
  }
  ConnectionId id{};
  if (rank == 0) id = kernels.find(&CollectiveKernels::new_id)();
  broadcast_bytes(std::as_writable_bytes(std::span(id)), processes);
  std::shared_ptr<Communicator> made = connect_ranks(device, id, rank, processes.size, channel::timeout());
  watch(made, rank);
  return made;
}

Group init(std::optional<std::chrono::milliseconds> timeout) {
  const memory::Op<"dist::init"> op;
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
  if (timeout) channel::set_timeout(std::min<std::chrono::milliseconds>(*timeout, std::chrono::years(1)));
  // Never destroyed, because a rank that ends after a failure must not wait for the others.
  static const Group& world = *[&] {
    const Launch launch = read_launch();
    channel::start(launch);
    share_host(launch);
    return new Group(group_of(launch.rank, launch.size, false));
  }();
  if (simulated.is_active) return group_of(world.rank(), world.size(), true);
  return world;
}

int local_rank() { return read_launch().local_rank; }

}  // namespace bytetape::dist
