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
  const auto in_a_function_of_templates = [](const std::map<int, nn::ReLU*>&) {
    struct Deep {};
    return nn::class_name(typeid(Deep));
  };
  EXPECT_EQ(in_a_function_of_templates({}), "Deep");
}

}  // namespace
}  // namespace bytetape
