#include "bytetape/core/cpu/parallel.h"

#include "bytetape/core/error.h"

namespace bytetape {

#ifdef _OPENMP
int num_threads() { return omp_get_max_threads(); }
void set_num_threads(int n) {
  check<ValueError>(n >= 1, "set_num_threads: expected at least 1, got ", n);
  omp_set_num_threads(n);
}
#else
int num_threads() { return 1; }
void set_num_threads(int n) { check<ValueError>(n >= 1, "set_num_threads: expected at least 1, got ", n); }
#endif

}  // namespace bytetape
