#include "bytetape/data/batch.h"

#include <type_traits>

#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape::data {
namespace {

template <class Index>
concept IsName = requires(const Batch& batch, Index name) {
  batch[name];
};
static_assert(IsName<const char*> && IsName<std::string> && !IsName<int>);
static_assert(std::is_aggregate_v<Batch>);

TEST(Batch, IsAPairToAStructuredBinding) {
  Batch batch{ones(2), zeros(3)};
  EXPECT_TRUE(batch.more.empty());
  const Batch& fixed = batch;
  const auto& [x, y] = fixed;
  static_assert(std::is_same_v<decltype(x), const Tensor>);
  EXPECT_EQ(&x, &batch.x);
  EXPECT_EQ(&y, &batch.y);
  auto& [own_x, own_y] = batch;
  static_assert(std::is_same_v<decltype(own_y), Tensor>);
  own_y = arange(4);
  EXPECT_TRUE(batch.y.is_same(own_y));
  const auto [copy_x, copy_y] = batch;
  EXPECT_TRUE(copy_x.is_same(own_x) && copy_y.is_same(own_y));
  auto [moved_x, moved_y] = Batch{copy_y, copy_x};
  EXPECT_TRUE(moved_x.is_same(own_y) && moved_y.is_same(own_x));
}

TEST(Batch, FindsTensorsByName) {
  Batch batch{ones(2), zeros(3), {{"mask", arange(4)}, {"boxes", arange(5)}}};
  const Batch& fixed = batch;
  EXPECT_EQ(&fixed["x"], &batch.x);
  EXPECT_EQ(&fixed["y"], &batch.y);
  EXPECT_EQ(&fixed["mask"], &batch.more[0].second);
  EXPECT_EQ(&fixed[std::string("boxes")], &batch.more[1].second);
  batch["mask"] = arange(6);
  EXPECT_EQ(fixed["mask"].numel(), 6);
  const Tensor& kept = Batch(batch)["boxes"];  // not a reference into a batch that is gone
  EXPECT_TRUE(kept.is_same(fixed["boxes"]));
}

TEST(Batch, NamesTheTensorsThatThereAre) {
  const Batch pair{ones(2), zeros(3)}, more{ones(2), zeros(3), {{"mask", arange(4)}, {"boxes", arange(5)}}};
  EXPECT_THROWS_SAYING(pair["mask"], ValueError, "no tensor 'mask' in a batch of x, y");
  EXPECT_THROWS_SAYING(more["box"], ValueError, "no tensor 'box' in a batch of x, y, mask, boxes");
  EXPECT_THROWS_SAYING(Batch()[""], ValueError, "no tensor '' in a batch of x, y");
}

}  // namespace
}  // namespace bytetape::data
