#include "bytetape/core/state_dict.h"

#include <gmock/gmock.h>

#include <limits>

#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

StateDict some() {
  StateDict state;
  state.tensors.emplace_back("weight", ones({2}));
  state.numbers["step"] = std::int64_t{3};
  state.numbers["lr"] = 0.1;
  state.numbers["best"] = std::numeric_limits<double>::infinity();
  return state;
}

TEST(StateDict, PutsPartsUnderTheirNames) {
  StateDict all;
  all.add("first", some());
  all.add("second.inner", some());
  EXPECT_EQ(all.tensors[0].first, "first.weight");
  EXPECT_EQ(all.integer("second.inner.step"), 3);
  const StateDict inner = all.part("second").part("inner");
  EXPECT_TRUE(inner.tensor("weight").is_same(all.tensor("second.inner.weight")));
  EXPECT_EQ(inner.numbers, some().numbers);
  EXPECT_TRUE(all.part("sec").numbers.empty());
}

TEST(StateDict, SaysWhatItLacks) {
  const StateDict state = some();
  EXPECT_EQ(state.number("lr"), 0.1);
  EXPECT_EQ(state.number("step"), 3);
  EXPECT_TRUE(state.has_tensor("weight"));
  EXPECT_FALSE(state.has_tensor("lr"));
  EXPECT_THAT([&] { state.tensor("bias"); }, ThrowsMessage<ValueError>(HasSubstr("no tensor 'bias'")));
  EXPECT_THAT([&] { state.number("eps"); }, ThrowsMessage<ValueError>(HasSubstr("no number 'eps'")));
  EXPECT_THAT([&] { state.integer("lr"); }, ThrowsMessage<ValueError>(HasSubstr("'lr' must be an integer, got 0.1")));
}

TEST(StateDict, NamesWhatDoesNotFit) {
  EXPECT_NO_THROW(check_names(some(), some()));
  StateDict other = some();
  other.tensors[0].first = "bias";
  other.numbers.erase("lr");
  EXPECT_THAT(
      [&] { check_names(other, some()); },
      ThrowsMessage<ValueError>(
          AllOf(HasSubstr("missing number 'lr', tensor 'weight'; unexpected tensor 'bias'"), Not(HasSubstr("step")))));
  StateDict fewer = some();
  fewer.numbers.erase("lr");
  EXPECT_THAT([&] { check_names(fewer, some()); },
              ThrowsMessage<ValueError>(testing::EndsWith("the state does not fit: missing number 'lr'")));
  EXPECT_THAT([&] { check_names(some(), fewer); },
              ThrowsMessage<ValueError>(testing::EndsWith("the state does not fit: unexpected number 'lr'")));
}

TEST(StateDict, SaysWhatIsNoInteger) {
  StateDict other = some();
  other.numbers["lr"] = std::int64_t{1};  // as good as 1.0
  EXPECT_NO_THROW(check_names(other, some()));
  other.numbers["step"] = 2.5;
  EXPECT_THAT([&] { check_names(other, some()); },
              ThrowsMessage<ValueError>(HasSubstr("'step' must be an integer, got 2.5")));
}

TEST(StateDict, NothingIsAddedTwice) {
  StateDict number, tensor, all;
  number.numbers["seed"] = std::int64_t{1};
  tensor.tensors.emplace_back("w", ones({1}));
  all.add("a", number);
  all.add("a", tensor);
  EXPECT_THAT([&] { all.add("a", number); },
              testing::ThrowsMessage<ValueError>("the state already has a number 'a.seed'"));
  EXPECT_THAT([&] { all.add("a", tensor); },
              testing::ThrowsMessage<ValueError>("the state already has a tensor 'a.w'"));
  EXPECT_EQ(all.numbers.size(), 1u);
  EXPECT_EQ(all.tensors.size(), 1u);
}

}  // namespace
}  // namespace bytetape
