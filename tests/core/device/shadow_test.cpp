#include "bytetape/core/device/shadow.h"

#include <set>
#include <utility>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/stand_in.h"

namespace bytetape {
namespace {

using test::random_tensor;

std::uint64_t versions_of(const Tensor& x) { return x.storage().version(); }

TEST(Shadow, IsOfTheViewThatWasAskedFor) {
  const Tensor x = random_tensor({6, 4}, DType::f32);
  for (const Tensor& part : {x, narrow(x, 0, 2, 3), transpose(x, 0, 1), select(x, 1, 3)}) {
    const Tensor copy = shadow_of(part, DType::bf16);
    EXPECT_EQ(copy.dtype(), DType::bf16);
    EXPECT_EQ(copy.shape(), part.shape());
    EXPECT_EQ(copy.strides(), part.strides());
    EXPECT_EQ(copy.to_vector<float>(), to(part, DType::bf16).to_vector<float>());
    EXPECT_EQ(&copy.storage(), &shadow_of(x, DType::bf16).storage()) << "one copy of all";
    EXPECT_EQ(current_shadow(part).to_vector<float>(), copy.to_vector<float>());
  }
}

TEST(Shadow, IsMadeOncePerVersionAndDtype) {
  const Tensor x = random_tensor({6}, DType::f32);
  EXPECT_FALSE(current_shadow(x).defined());
  const Tensor copy = shadow_of(x, DType::bf16);
  const std::uint64_t made = versions_of(copy);
  shadow_of(x, DType::bf16);
  EXPECT_EQ(versions_of(copy), made);
  fill_(x, 3);
  EXPECT_FALSE(current_shadow(x).defined()) << "it is stale";
  EXPECT_EQ(shadow_of(x, DType::bf16).to_vector<float>(), std::vector<float>(6, 3));
  EXPECT_EQ(&shadow_of(x, DType::bf16).storage(), &copy.storage()) << "in the memory of the old one";
  EXPECT_GT(versions_of(copy), made);
  const Tensor other = shadow_of(x, DType::f16);
  EXPECT_EQ(other.dtype(), DType::f16);
  EXPECT_NE(&other.storage(), &copy.storage());
  EXPECT_EQ(current_shadow(x).dtype(), DType::f16);
}

TEST(Shadow, AWriteOfBothCountsForBoth) {
  const Tensor x = random_tensor({6}, DType::f32);
  const std::uint64_t first = versions_of(x);
  note_write_with_shadow(x);
  EXPECT_EQ(versions_of(x), first + 1) << "there is none yet";
  const Tensor copy = shadow_of(x, DType::bf16);
  const std::uint64_t of_x = versions_of(x), of_copy = versions_of(copy);
  note_write_with_shadow(x);
  EXPECT_EQ(versions_of(x), of_x + 1);
  EXPECT_EQ(versions_of(copy), of_copy + 1);
  EXPECT_TRUE(current_shadow(x).defined());
  fill_(x, 1);
  note_write_with_shadow(x);
  EXPECT_FALSE(current_shadow(x).defined()) << "it was stale before";
}

std::set<std::pair<int, int>> waits;  // of the second stream for the first

TEST(Shadow, IsWrittenBehindThoseThatReadTheOldOne) {
  const test::StandIn stand_in{{.order = [](int, int from, int to) noexcept { waits.emplace(from, to); }}};
  const Tensor x = ones({6}, DType::f32, Device::cuda());
  shadow_of(x, DType::bf16);
  {
    const StreamScope reader(Stream(2));
    shadow_of(x, DType::bf16).read();
  }
  fill_(x, 2);
  waits.clear();
  shadow_of(x, DType::bf16);
  EXPECT_TRUE(waits.contains({2, 0}));
}

}  // namespace
}  // namespace bytetape
