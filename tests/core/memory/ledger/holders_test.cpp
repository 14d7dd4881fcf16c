#include "bytetape/core/memory/holders.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace bytetape::memory {
namespace {

TEST(Holders, TheLargestComesFirstAndThenTheFirstByName) {
  // In the opposite order of their names, so that ids do not decide.
  const NameId z = intern("holders test z"), m = intern("holders test m"), a = intern("holders test a");
  std::vector<RoleBytes> table(a + 1);
  const auto hold = [&](NameId name, Role role, std::size_t bytes) {
    table[name][static_cast<std::size_t>(role)] = bytes;
  };
  hold(z, Role::gradient, 100);
  hold(z, Role::parameter, 100);
  hold(m, Role::saved, 700);
  hold(a, Role::workspace, 100);
  hold(a, Role::input, 50);
  using Row = std::tuple<std::size_t, std::string, Role>;
  std::vector<Row> rows;
  for (const Holder& h : holders_of(table)) rows.emplace_back(h.bytes, name_of(h.name), h.role);
  EXPECT_EQ(rows, (std::vector<Row>{{700, "holders test m", Role::saved},
                                    {100, "holders test a", Role::workspace},
                                    {100, "holders test z", Role::parameter},
                                    {100, "holders test z", Role::gradient},
                                    {50, "holders test a", Role::input}}));
  EXPECT_TRUE(holders_of({}).empty());
}

TEST(Holders, OutsideModulesHaveANameToShow) {
  EXPECT_EQ(display_name(0), "(outside modules)");
  EXPECT_EQ(display_name(intern("net.fc")), "net.fc");
}

}  // namespace
}  // namespace bytetape::memory
