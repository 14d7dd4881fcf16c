#include "bytetape/core/device/fault.h"

#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(Faults, OfEachKindSayWhatWasWrong) {
  EXPECT_THROWS_SAYING(throw_fault({Fault::Kind::index, 7, 5}), ValueError, "index 7 is not in [0, 5)");
  EXPECT_THROWS_SAYING(throw_fault({Fault::Kind::probabilities, 3, 2}), ValueError,
                       "row 3 of the probabilities has a negative or non-finite element, or fewer than 2 positive");
  EXPECT_THROWS_SAYING(throw_fault({Fault::Kind::target, -1, 3}), ValueError,
                       "target -1 is not in [0, 3), the classes that the logits tell apart");
  EXPECT_THROWS_SAYING(throw_fault({Fault::Kind::position, 5, 4}), ValueError,
                       "position 5 of a row is not in [0, 4), the positions from which the new tokens fit");
  EXPECT_THROWS_SAYING(throw_fault({Fault::Kind::example, 9, 4}), ShapeError, "example 9 of a dataset of 4");
}

}  // namespace
}  // namespace bytetape
