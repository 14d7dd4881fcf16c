#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "bytetape/core/device/device.h"

namespace bytetape {
class Communicator;
}  // namespace bytetape

/// Programs of several processes: groups, collectives, data parallel training.
namespace bytetape::dist {

/// Processes that run collectives together (a process group of torch.distributed). Each has a number, its rank. Copies
/// refer to the same group.
class Group {
 public:
  /// The number of this process, from 0.
  int rank() const;
  /// The number of processes.
  int size() const;
  /// Whether the other ranks are not there, because memory is predicted.
  bool is_simulated() const;
  /// The ranks of the processes in the group that init() returns, in the order of their ranks here.
  const std::vector<int>& world_ranks() const;

  /// Splits the group into one for each colour, and returns this rank's. `colours` has the colour of each rank, and
  /// must be the same on all ranks. Ranks keep their order. Every rank of the group must call it, in the same order as
  /// other splits.
  /// Throws ValueError if `colours` does not have size() entries.
  Group split(const std::vector<int>& colours) const;

  /// Returns what connects the ranks for memory of `device`: MPI for the CPU, NCCL for a GPU. Null for a meta device, a
  /// simulated group, or one rank. The first call for a GPU connects the ranks, so all must make it.
  /// Throws DeviceError if nothing connects them.
  Communicator* communicator(Device device) const;

  /// Returns what connects the processes themselves, for barriers and short messages: MPI, or sockets under torchrun.
  /// Null for a simulated group or one rank. Throws DeviceError if nothing connects them.
  Communicator* between_processes() const;

 private:
  friend Group init(std::optional<std::chrono::milliseconds>);
  struct State;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Joins the processes that a launcher has started, and returns the group of all
/// (torch.distributed.init_process_group). Launchers are mpirun of OpenMPI and MPICH, srun of Slurm, and torchrun.
/// Without a launcher the group has one rank, and every collective works. Later calls return the same group.
///
/// NCCL connects GPUs. MPI connects the memory of CPUs, and GPUs where NCCL cannot. Ranks that torchrun started have no
/// MPI, so their collectives on CPU tensors throw DeviceError.
///
/// If several processes share a host and OMP_NUM_THREADS is not set, sets num_threads() to this process's share of the
/// cores. Within memory::predict() the group is that of its options, and the other ranks are not there.
///
/// `timeout` is the time after which a rank that does not answer counts as lost: collectives then throw
/// DistributedError. Initially 10 minutes. A later call with a timeout changes it.
/// Throws ValueError if the launcher's environment is invalid.
/// Throws DistributedError if the launcher and MPI number the processes differently, or ranks do not come in time.
Group init(std::optional<std::chrono::milliseconds> timeout = {});

/// Returns the number of this process among those on its host, from 0, or 0 without a launcher. Usually the rank's GPU
/// is Device::cuda(local_rank()).
/// Throws ValueError if the launcher's environment is invalid.
int local_rank();

}  // namespace bytetape::dist
