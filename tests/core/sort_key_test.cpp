#include "bytetape/core/sort_key.h"

#include <gtest/gtest.h>

#include <vector>

namespace bytetape {
namespace {

static_assert(sort_key(0.0f) == sort_key(-0.0f) && sort_key(std::uint8_t{7}) == 7 && sort_key(true) == 1);

/// Each value is less than the next.
template <class T>
void expect_order(const std::vector<T>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < values.size(); ++j) {
      EXPECT_EQ(sort_key(values[i]) < sort_key(values[j]), i < j) << i << " " << j;
      EXPECT_EQ(sort_key(values[i], true) < sort_key(values[j], true), i > j) << i << " " << j;
      EXPECT_EQ(sort_key(values[i], true) >> (8 * sizeof(T) - 1) >> 1, 0u);
    }
}

template <class T>
void expect_order_of_floats() {
  using C = compute_t<T>;
  constexpr C infinity = std::numeric_limits<C>::infinity(), nan = std::numeric_limits<C>::quiet_NaN();
  std::vector<T> values;
  for (const double v : {-3e4, -1.5, -1.0, -0x1p-14, 0.0, 0x1p-14, 1.0, 1.5, 3e4})
    values.push_back(static_cast<T>(static_cast<C>(v)));
  values.insert(values.begin(), static_cast<T>(-infinity));
  values.push_back(static_cast<T>(infinity));
  values.push_back(static_cast<T>(nan));
  expect_order(values);
  EXPECT_EQ(sort_key(static_cast<T>(C{0})), sort_key(static_cast<T>(-C{0})));
  EXPECT_EQ(sort_key(static_cast<T>(nan)), sort_key(static_cast<T>(-nan)));
}

TEST(SortKey, OrdersFloats) {
  expect_order_of_floats<double>();
  expect_order_of_floats<float>();
  expect_order_of_floats<BFloat16>();
  expect_order_of_floats<Half>();
}

TEST(SortKey, OrdersIntegers) {
  using Limits = std::numeric_limits<std::int64_t>;
  expect_order<std::int64_t>({Limits::min(), -5, -1, 0, 1, 5, Limits::max()});
  expect_order<std::int32_t>({std::numeric_limits<std::int32_t>::min(), -1, 0, 7});
  expect_order<std::uint8_t>({0, 1, 128, 255});
  expect_order<bool>({false, true});
}

TEST(SortTickets, OrderEqualKeysByTheirIndices) {
  const auto check = [](auto last) {
    using Ticket = decltype(last);
    const Ticket nan = Ticket::of(sort_key(std::numeric_limits<float>::quiet_NaN()), 4'000'000'000);
    EXPECT_TRUE(Ticket::of(5, 7) < Ticket::of(5, 8) && Ticket::of(5, 8) < Ticket::of(6, 0));
    EXPECT_TRUE(nan < last && !(last < last));
    EXPECT_EQ(nan.index(), 4'000'000'000);
  };
  check(PackedTicket::last());
  check(WideTicket::last());
}

}  // namespace
}  // namespace bytetape
