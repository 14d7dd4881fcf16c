#pragma once

namespace bytetape {

/// Returns the number of threads that CPU kernels may use on this thread.
/// Default: OMP_NUM_THREADS, at most 1024, else all cores that the process may use. Always 1 without OpenMP.
int num_threads();
/// Sets num_threads() of this thread (torch.set_num_threads).
/// Throws ValueError unless 1 <= n <= 1024. OpenMP ends the process if it cannot start the threads.
void set_num_threads(int n);

/// Makes waiting OpenMP threads sleep after a fraction of a millisecond. Call it first in main:
///
///     int main(int, char** argv) {
///       share_cores(argv);
///
/// GCC's OpenMP spins for several milliseconds. If another program holds a core, all threads then spin for the one that
/// does not run. OpenMP reads the duration from the environment before main, so this restarts the program once, with
/// GOMP_SPINCOUNT set. Does nothing if the environment has GOMP_SPINCOUNT or OMP_WAIT_POLICY, if the restart fails, or
/// without OpenMP.
void share_cores(char** argv);

}  // namespace bytetape
