#include "bytetape/distributed/launcher.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "bytetape/core/error.h"

namespace bytetape::dist {
namespace {

/// The environment variables of a launcher. local_size may be unset.
struct Names {
  const char *launcher, *rank, *size, *local_rank, *local_size;
};
constexpr Names launchers[] = {
    {"OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};

/// Returns the number in a variable. Slurm's "2(x3)" counts as 2.
std::optional<int> number_in(const char* name) {
  const char* const text = std::getenv(name);
  if (!text) return std::nullopt;
  const std::string_view all = text;
  int value = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  const bool ends = end == all.data() + all.size() || *end == '(' || *end == ',';
  check<ValueError>(error == std::errc() && ends && value >= 0, "expected a number in ", name, ", found '", all, "'");
  return value;
}

int required(const Names& names, const char* name) {
  const std::optional<int> value = number_in(name);
  check<ValueError>(value.has_value(), names.launcher, " has set ", names.rank, " but not ", name);
  return *value;
}

Launch read(const Names& names) {
  Launch found{.launcher = names.launcher, .rank = *number_in(names.rank), .size = required(names, names.size)};
  // srun tells these also if it starts processes of MPICH.
  const bool by_slurm = !number_in(names.local_rank) && number_in("SLURM_LOCALID");
  found.local_rank = number_in(by_slurm ? "SLURM_LOCALID" : names.local_rank).value_or(0);
  found.local_size = number_in(by_slurm ? "SLURM_STEP_TASKS_PER_NODE" : names.local_size).value_or(1);
  check<ValueError>(found.rank < found.size, names.launcher, " has set ", names.rank, "=", found.rank, ", but ",
                    names.size, "=", found.size);
  return found;
}

}  // namespace

Launch read_launch() {
  // torchrun may start mpirun's processes and the other way round: MPI's own variables are those of this process.
  // Variables of MPI are complete. A program may have a RANK of its own, and a batch script of Slurm has no step.
  for (const Names& names : launchers) {
    const bool is_mpi = names.launcher == std::string_view("OpenMPI") || names.launcher == std::string_view("MPICH");
    if (std::getenv(names.rank) && (is_mpi || std::getenv(names.size))) return read(names);
  }
  return {};
}

}  // namespace bytetape::dist
