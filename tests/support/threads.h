#pragma once
#include "bytetape/core/parallel.h"

namespace bytetape::test {

/// f() with another number of threads than now.
template <class F>
auto with_threads(int n, F&& f) {
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  set_num_threads(n);
  return f();
}

}  // namespace bytetape::test
