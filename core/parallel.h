#pragma once

namespace bytetape {

/// Threads that CPU kernels may use. Default: OMP_NUM_THREADS, else every core.
int num_threads();
/// Throws ValueError below 1.
void set_num_threads(int n);

}  // namespace bytetape
