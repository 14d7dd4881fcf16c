#include "bytetape/core/walk.h"

#include <gtest/gtest.h>

namespace bytetape {
namespace {

template <std::size_t K>
constexpr bool walks(const Shape& shape, const std::array<Strides, K>& strides, const Shape& merged,
                     const std::array<Strides, K>& steps) {
  std::array<const Strides*, K> pointers{};
  for (std::size_t k = 0; k < K; ++k) pointers[k] = &strides[k];
  const Walk<K> walk(shape, pointers);
  for (std::size_t k = 0; k < K; ++k)
    if (!(walk.strides[k] == steps[k])) return false;
  return walk.shape == merged;
}

// In constant expressions: a device's compiler may take all of it.
static_assert(walks<1>({2, 3, 4}, {{{12, 4, 1}}}, {24}, {{{1}}}), "row-major is one run");
static_assert(walks<1>({2, 3, 4}, {{{1, 2, 6}}}, {24}, {{{1}}}), "in whatever order of dims");
static_assert(walks<1>({2, 3, 4}, {{{24, 8, 2}}}, {24}, {{{2}}}), "steps may be longer");
static_assert(walks<1>({2, 3, 4}, {{{24, 4, 1}}}, {2, 12}, {{{24, 1}}}), "a gap ends a run");
static_assert(walks<1>({1, 5, 1}, {{{7, 1, 9}}}, {5}, {{{1}}}), "dims of size 1 are left out");
static_assert(walks<1>({1, 1}, {{{7, 9}}}, {}, {{{}}}));
static_assert(walks<2>({3, 4}, {{{4, 1}, {0, 1}}}, {3, 4}, {{{4, 1}, {0, 1}}}), "all operands have to agree");
static_assert(walks<2>({3, 4}, {{{4, 1}, {0, 0}}}, {12}, {{{1}, {0}}}), "a repeated element is one run");
static_assert(walks<2>({2, 3, 4, 5}, {{{60, 1, 15, 3}, {60, 20, 5, 1}}}, {2, 20, 3}, {{{60, 3, 1}, {60, 1, 20}}}),
              "the first operand leads");
constexpr bool completes() {
  Walk<2> walk;
  walk.complete();
  const bool one = walk.shape == Shape{1} && walk.strides[1] == Strides{0};
  walk.complete();
  return one && walk.shape.size() == 1;
}
static_assert(completes());

TEST(Walk, JoinsWhatIsAddedFromOutsideIn) {
  Walk<2> walk;
  walk.add(2, {12, 0});
  walk.add(3, {4, 0});
  walk.add(1, {99, 99});
  walk.add(4, {1, 1});
  EXPECT_EQ(walk.shape, (Shape{6, 4}));
  EXPECT_EQ(walk.strides[0], (Strides{4, 1}));
  EXPECT_EQ(walk.strides[1], (Strides{0, 1}));
}

}  // namespace
}  // namespace bytetape
