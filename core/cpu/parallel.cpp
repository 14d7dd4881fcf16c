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
/// Under which the system names the program: started as /proc/self/exe it would be "exe".
std::string path_of_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}
#endif

}  // namespace

int num_threads() {
#ifdef _OPENMP
  // Kernels ask here before any of them, or oneDNN, starts a team: what the environment says is bounded in time.
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
  // 0.2 to 0.5 ms: longer than most pauses between kernels, shorter than a scheduler's slice.
  setenv("GOMP_SPINCOUNT", "10000", 0);
  execv(path_of_program().c_str(), argv);  // returns only where it fails: the file was replaced just now
  execv("/proc/self/exe", argv);
#endif
}

}  // namespace bytetape
