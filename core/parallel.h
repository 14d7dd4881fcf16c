#pragma once

namespace bytetape {

/// Threads that CPU kernels may use when this thread calls them. Default: OMP_NUM_THREADS, but no more than 1,024; else
/// every core that the process may use. Always 1 in a build without OpenMP.
int num_threads();
/// Sets num_threads() of this thread (torch.set_num_threads). Throws ValueError below 1, and above 1024, as OpenMP ends
/// the process where it cannot start as many.
void set_num_threads(int n);

/// Lets threads that wait for others sleep after a fraction of a millisecond. GCC's OpenMP spins for several, and
/// beside a busy program that holds one of the cores, all the others spin for the thread that does not run. OpenMP
/// reads how long from the environment before main, so this starts the program anew, once, with GOMP_SPINCOUNT set:
///
///     int main(int, char** argv) {
///       share_cores(argv);
///
/// Nothing happens where the environment has GOMP_SPINCOUNT or OMP_WAIT_POLICY, where the program cannot be started
/// anew, or in a build without OpenMP.
void share_cores(char** argv);

}  // namespace bytetape
