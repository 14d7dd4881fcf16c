#include "bytetape/data/example_spec.h"

#include "tests/support/expect.h"

namespace bytetape::data {
namespace {

TEST(ExampleSpec, HasFieldsWithDifferentNames) {
  EXPECT_NO_THROW(check_names({}));
  EXPECT_NO_THROW(check_names({{"mask", {}}, {"X", {}}, {"boxes", {}}}));
  EXPECT_THROWS_SAYING(check_names({{"mask", {}}, {"boxes", {}}, {"mask", {}}}), ValueError,
                       "two fields are named 'mask'");
  for (const char* taken : {"x", "y"})
    EXPECT_THROWS_SAYING(check_names({{taken, {}}}), ValueError,
                         std::string("a field is named '") + taken + "', which is the name of the inputs or targets");
  EXPECT_THROWS_SAYING(check_names({{"", {}}}), ValueError, "a field has no name");
}

TEST(ExampleSpec, KnowsImagesOfXsSize) {
  for (const Shape& x : {Shape{4, 6}, Shape{3, 4, 6}}) {
    for (const Shape& same : {Shape{4, 6}, Shape{1, 4, 6}, Shape{0, 4, 6}}) EXPECT_TRUE(is_image_like(same, x)) << same;
    for (const Shape& other : {Shape{}, Shape{6}, Shape{6, 4}, Shape{4, 5}, Shape{3, 6}, Shape{2, 1, 4, 6}})
      EXPECT_FALSE(is_image_like(other, x)) << other;
  }
  EXPECT_FALSE(is_image_like({4, 6}, {6}));
}

}  // namespace
}  // namespace bytetape::data
