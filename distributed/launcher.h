#pragma once
#include <string>

namespace bytetape::dist {

/// The launcher of this process, and the process's place in the launch.
struct Launch {
  std::string launcher;  ///< "torchrun", "OpenMPI", "MPICH" or "Slurm"; empty if none started the process
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  ///< among the processes on this host; 0 and 1 if unknown
};

/// Reads the environment of OpenMPI's and MPICH's mpirun, of Slurm's srun, or of torchrun, in this order.
/// Throws ValueError, naming the variable, if a number is missing or invalid.
Launch read_launch();

}  // namespace bytetape::dist
