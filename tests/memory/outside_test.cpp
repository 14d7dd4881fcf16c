// What lasts outside the ledger is bounded, however many shapes a process meets.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bytetape/bytetape.h"

namespace bytetape {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

std::optional<memory::Outside> outside() { return memory::snapshot(Device::cpu()).outside; }

void multiply(std::int64_t first, std::int64_t last) {
  const NoGrad no_grad;
  for (std::int64_t n = first; n < last; ++n) matmul(randn({n % 60 + 4, n % 50 + 16}), randn({n % 50 + 16, n + 8}));
}

TEST(Outside, DoesNotGrowWithEveryShapeThatIsMet) {
  multiply(0, 400);
  const auto before = outside();
  if (!before) GTEST_SKIP() << "this system does not tell";
  multiply(400, 1200);
  EXPECT_LT(outside()->bytes, before->bytes + 12 * MiB) << "800 more shapes";
}

}  // namespace
}  // namespace bytetape
