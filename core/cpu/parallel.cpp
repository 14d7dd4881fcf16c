#include "bytetape/core/cpu/parallel.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "bytetape/core/error.h"

namespace bytetape {
namespace {

constexpr int most_threads = 1024;

#ifdef _OPENMP
/// Returns the program's path. A program started as /proc/self/exe would have the name "exe".
std::string path_of_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}
#endif

}  // namespace

int num_threads() {
#ifdef _OPENMP
  // Kernels call this before they, or oneDNN, start a team. So the limit applies to values from the environment too.
  if (omp_get_max_threads() > most_threads) omp_set_num_threads(most_threads);
  return omp_get_max_threads();
#else
  return 1;
#endif
}

void set_num_threads(int n) {
  check<ValueError>(n >= 1 && n <= most_threads, "set_num_threads: expected 1 to ", most_threads, ", got ", n);
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

void share_cores([[maybe_unused]] char** argv) {
#ifdef _OPENMP
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  // 0.2 to 0.5 ms. That is longer than most pauses between kernels, and shorter than a scheduler's time slice.
  setenv("GOMP_SPINCOUNT", "10000", 0);
  execv(path_of_program().c_str(), argv);  // returns only if it fails, because the file was replaced
  execv("/proc/self/exe", argv);
#endif
}

}  // namespace bytetape
