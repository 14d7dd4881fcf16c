#include "bytetape/nn/class_name.h"

#include <map>

#include "bytetape/nn/nn.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

template <class A, class B>
struct Two {
  struct Inner {};
};

TEST(ClassName, LeavesNamespacesOut) {
  struct Local {};
  EXPECT_EQ(nn::class_name(typeid(nn::Linear)), "Linear");
  EXPECT_EQ(nn::class_name(typeid(nn::ModuleList<nn::Linear>)), "ModuleList<Linear>");
  EXPECT_EQ(nn::class_name(typeid(Two<nn::ReLU, Two<nn::Tanh, int>>)), "Two<ReLU, Two<Tanh, int> >");
  EXPECT_EQ(nn::class_name(typeid(Two<nn::ReLU, nn::Tanh>::Inner)), "Inner");
  EXPECT_EQ(nn::class_name(typeid(Local)), "Local");
  // A function type is left as it is: its parentheses hold no class that the name is of.
  EXPECT_EQ(nn::class_name(typeid(Two<void(nn::ReLU), int>)), "Two<void (bytetape::nn::ReLU), int>");
  EXPECT_EQ(nn::class_name(typeid(Two<Two<void(nn::ModuleList<nn::Linear>), int>::Inner, int>)), "Two<Inner, int>");
  const auto in_a_function_of_templates = [](const std::map<int, nn::ReLU*>&) {
    struct Deep {};
    return nn::class_name(typeid(Deep));
  };
  EXPECT_EQ(in_a_function_of_templates({}), "Deep");
}

}  // namespace
}  // namespace bytetape
