#include "bytetape/core/parallel.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "bytetape/core/error.h"

namespace bytetape {
namespace {

TEST(SetNumThreads, RefusesWhatNoMachineHas) {
  const int before = num_threads();
  for (const int n : {std::numeric_limits<int>::min(), -1, 0, 1025, 200000, std::numeric_limits<int>::max()}) {
    try {
      set_num_threads(n);
      ADD_FAILURE() << n << " threads";
    } catch (const ValueError& e) {
      EXPECT_EQ(e.what(), "set_num_threads: expected 1 to 1024, got " + std::to_string(n));
    }
    EXPECT_EQ(num_threads(), before);
  }
}

}  // namespace
}  // namespace bytetape
