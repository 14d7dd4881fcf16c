#pragma once

namespace bytetape {

/// Threads that CPU kernels may use when this thread calls them. Default: OMP_NUM_THREADS, else every core that the
/// process may use. Always 1 in a build without OpenMP.
int num_threads();
/// Sets num_threads() of this thread (torch.set_num_threads). Throws ValueError below 1, and above 1024, as OpenMP ends
/// the process where it cannot start as many.
void set_num_threads(int n);

}  // namespace bytetape
