#include "bytetape/autograd/operand.h"

#include <type_traits>

#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

/// Converts to a tensor, as a slot of a module does.
struct Slot {
  Tensor held;
  operator const Tensor&() const { return held; }
};

TEST(Operand, RefersToATensor) {
  const Slot slot{zeros({3})};
  EXPECT_EQ(&Operand(slot.held).tensor(), &slot.held);
  EXPECT_EQ(&Operand(slot).tensor(), &slot.held);
  EXPECT_FALSE(Operand(slot).is_number());
  EXPECT_FALSE(Operand(Tensor()).is_number());
}

TEST(Operand, KeepsANumber) {
  const Operand small(1.5F), large((std::int64_t{1} << 53) + 1), flag(true);
  EXPECT_TRUE(small.is_number());
  EXPECT_FALSE(small.tensor().defined());
  EXPECT_EQ(small.number().to<double>(), 1.5);
  EXPECT_EQ(large.number().to<std::int64_t>(), (std::int64_t{1} << 53) + 1);
  EXPECT_TRUE(flag.number().to<bool>());
  static_assert(!std::is_constructible_v<Operand, const char*>);
  struct Maker {
    operator Tensor() const { return {}; }
  };
  static_assert(!std::is_convertible_v<Maker, Operand>);  // its tensor would be gone before the op runs
}

}  // namespace
}  // namespace bytetape
