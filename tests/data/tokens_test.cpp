#include "bytetape/data/tokens.h"

#include <gtest/gtest.h>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/stand_in.h"

namespace bytetape {
namespace {

using data::ResidentTokens;

const std::vector<std::int64_t> text{5, 3, 8, 1, 9, 2, 7, 0, 4, 6, 5};
Tensor tokens() { return from_vector(text); }
Tensor at(const std::vector<std::int64_t>& indices) { return from_vector(indices); }

TEST(ResidentTokens, GivesWindowsAndTheTokensBehindEach) {
  const ResidentTokens windows(tokens(), 3);
  EXPECT_EQ(windows.size(), 3);
  const data::Batch batch = windows.get(at({2, 0}));
  EXPECT_EQ(batch.x.shape(), (Shape{2, 3}));
  EXPECT_EQ(batch.x.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 0, 4, 5, 3, 8}));
  EXPECT_EQ(batch.y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 4, 6, 3, 8, 1}));
}

TEST(ResidentTokens, NeedTheTokenBehindTheLastWindow) {
  EXPECT_EQ(ResidentTokens(tokens(), 10).size(), 1);
  EXPECT_EQ(ResidentTokens(narrow(tokens(), 0, 0, 10), 5).size(), 1);
  EXPECT_EQ(ResidentTokens(tokens(), 5).size(), 2);
  EXPECT_THROWS_SAYING(ResidentTokens(tokens(), 11), ValueError,
                       "ResidentTokens: expected more than the 11 tokens of a window, got 11");
}

TEST(ResidentTokens, MayHaveGaps) {
  const Tensor spaced = select(stack({tokens(), tokens() + 100}, 1), 1, 1);
  EXPECT_EQ(ResidentTokens(spaced, 4).get(at({1})).x.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{109, 102, 107, 100}));
}

TEST(ResidentTokens, AreInputsOfThePhaseData) {
  const ResidentTokens windows(tokens(), 3);
  const data::Batch batch = windows.get(at({1}));
  for (const Tensor* x : {&batch.x, &batch.y}) EXPECT_EQ(x->storage().role(), memory::Role::input);
}

TEST(ResidentTokens, AreCopiedToTheDevice) {
  const test::StandIn gpu;
  const ResidentTokens windows(tokens(), 3, Device::cuda());
  const data::Batch batch = windows.get(to(at({1}), Device::cuda()));
  EXPECT_EQ(batch.x.device(), Device::cuda());
  EXPECT_EQ(batch.x.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 9, 2}));
}

TEST(ResidentTokens, AreLoadedInEpochs) {
  const ResidentTokens windows(tokens(), 2);
  data::ResidentLoader loader(windows, {.batch_size = 2, .shuffle = true, .seed = 4});
  EXPECT_EQ(loader.size(), 3);
  std::multiset<std::int64_t> firsts;
  for (const auto& [x, y] : loader)
    for (std::int64_t i = 0; i < x.size(0); ++i) firsts.insert(select(select(x, 0, i), 0, 0).item<std::int64_t>());
  EXPECT_EQ(firsts, (std::multiset<std::int64_t>{5, 8, 9, 7, 4}));
}

TEST(ResidentTokens, RejectBadInput) {
  EXPECT_THROWS_SAYING(ResidentTokens(zeros({5}), 2), DTypeError,
                       "ResidentTokens: expected tokens in i64, got f32(5,)");
  EXPECT_THROWS_SAYING(ResidentTokens(view(at({1, 2}), {1, 2}), 1), ShapeError, "expected tokens (n), got i64(1, 2)");
  EXPECT_THROWS_SAYING(ResidentTokens(tokens(), 0), ValueError, "got a length of 0");
  EXPECT_THROWS_SAYING(ResidentTokens(Tensor(), 1), ValueError, "tokens is an undefined tensor");
  const ResidentTokens windows(tokens(), 3);
  EXPECT_THROWS_SAYING(windows.get(at({3})), ValueError, "index 3 is not in [0, 3)");
  EXPECT_THROWS_SAYING(windows.get(zeros(1)), DTypeError, "expected indices in i64");
  EXPECT_THROWS_SAYING(windows.get(view(at({1}), {1, 1})), ShapeError, "expected indices (m)");
  EXPECT_THROWS_SAYING(windows.get(zeros(1, DType::i64, Device::meta())), DeviceError,
                       "indices on another device: i64(1,) on meta and i64(11,) on cpu");
  EXPECT_THROWS_SAYING(windows.get(at({1}), {.flip = 0.5}), ValueError, "text has no augmentation");
}

}  // namespace
}  // namespace bytetape
