#include "bytetape/core/named_tensors.h"

#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(NamedTensors, SayEachKeyThatDoesNotFit) {
  const NamedTensors own{{"a", ones({1})}, {"b", ones({1})}, {"c", ones({1})}};
  const auto check = [&](const std::vector<std::string>& given, bool strict = true) {
    check_keys("load", own, given, strict);
  };
  check({"c", "a", "b"});
  EXPECT_THROWS_SAYING(check({"b"}), ValueError, "load: missing keys: [a, c]; unexpected keys: []");
  EXPECT_THROWS_SAYING(check({"a", "b", "c", "x", "y"}), ValueError, "missing keys: []; unexpected keys: [x, y]");
  check({"b", "x"}, /*strict=*/false);
  EXPECT_THROWS_SAYING(check({"a", "b", "a", "b", "c"}, false), ValueError, "load: repeated keys: [a, b]");
}

}  // namespace
}  // namespace bytetape
