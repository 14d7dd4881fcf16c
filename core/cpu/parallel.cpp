#include "bytetape/core/cpu/parallel.h"

#include "bytetape/core/error.h"

namespace bytetape {

#ifdef _OPENMP
int num_threads() { return omp_get_max_threads(); }
#else
int num_threads() { return 1; }
#endif

void set_num_threads(int n) {
  check<ValueError>(n >= 1 && n <= 1024, "set_num_threads: expected 1 to 1024, got ", n);
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

}  // namespace bytetape
