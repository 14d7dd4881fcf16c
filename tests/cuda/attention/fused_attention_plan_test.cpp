// When cuDNN's fused attention runs, in which chunks, and its workspace. All of it is decided on the host.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

#include "bytetape/cuda/attention/fused_attention.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {
namespace {

/// The shapes of an attention, with the letters of core/kernels/attention.h. Heads are inside tokens.
struct Case {
  std::int64_t b = 2, h = 4, g = 4, n = 16, m = 20, d = 64, e = 64;
  DType dtype = DType::bf16;
  bool is_causal = false;

  View tensor(std::int64_t heads, std::int64_t tokens, std::int64_t width) const {
    return View(reinterpret_cast<void*>(4096), dtype, Device::cuda(), {b, heads, tokens, width},
                {tokens * heads * width, width, heads * width, 1});
  }
  View per_row() const { return View(nullptr, DType::f32, Device::cuda(), {b, h, n}, contiguous_strides({b, h, n})); }
  AttentionInputs in() const {
    return {.q = tensor(h, n, d), .k = tensor(g, m, d), .v = tensor(g, m, e), .is_causal = is_causal};
  }
  AttentionArgs forward() const { return {in(), tensor(h, n, e), per_row(), per_row()}; }
  AttentionBackwardArgs backward() const {
    return {in(),           tensor(h, n, e), per_row(), per_row(), tensor(h, n, e), tensor(h, n, d), tensor(g, m, d),
            tensor(g, m, e)};
  }
};

/// For tests of what cuDNN computes. A CUDA build without cuDNN fuses nothing.
class FusedAttentionRuns : public testing::Test {
 protected:
  void SetUp() override {
#ifdef BYTETAPE_WITHOUT_CUDNN
    EXPECT_FALSE(is_fused(Case{}.forward()));
    GTEST_SKIP() << "this build has no cuDNN";
#endif
  }
};

TEST_F(FusedAttentionRuns, ForWhatCudnnTakes) {
  const auto takes = [](const Case& c) { return is_fused(c.forward()) && is_fused(c.backward()); };
  EXPECT_TRUE(takes({}));
  EXPECT_TRUE(takes({.dtype = DType::f16}));
  EXPECT_TRUE(takes({.g = 1, .is_causal = true}));
  EXPECT_TRUE(takes({.n = 2, .m = 2, .d = 8, .e = 128}));
  EXPECT_TRUE(is_fused(Case{.n = 1}.forward()));
  EXPECT_FALSE(is_fused(Case{.n = 1}.backward()));
  EXPECT_FALSE(takes({.dtype = DType::f32}));
  EXPECT_FALSE(takes({.d = 60}));
  EXPECT_FALSE(takes({.e = 60}));
  EXPECT_FALSE(takes({.d = 136}));
  EXPECT_FALSE(takes({.e = 136}));
  EXPECT_FALSE(takes({.d = 0}));
  EXPECT_FALSE(takes({.m = 1}));
  EXPECT_FALSE(takes({.n = 0}));
  EXPECT_FALSE(takes({.b = 0}));
  AttentionArgs a = Case{}.forward();
  a.in.may_fuse = false;
  EXPECT_FALSE(is_fused(a));
  a = Case{}.forward();
  a.in.mask = View(nullptr, DType::boolean, Device::cuda(), {2, 4, 16, 20}, {0, 0, 0, 1});
  EXPECT_FALSE(is_fused(a));
}

TEST_F(FusedAttentionRuns, UnlessScoresAreTooMany) {
  const Case most{.b = 9, .h = 2, .g = 2, .n = 16'000, .m = 16'384},
      more{.b = 1, .h = 2, .g = 1, .n = 16'000, .m = 16'384};
  EXPECT_TRUE(is_fused(most.backward()));
  EXPECT_FALSE(is_fused(more.backward())) << "a group has two heads";
  EXPECT_TRUE(is_fused(more.forward())) << "no scores are in memory";
}

// cuDNN's mask is its own, so that backward must have it, too.
TEST_F(FusedAttentionRuns, InBothPassesOrNoneWithDropout) {
  const auto fused = [](const Case& c, double p) {
    AttentionArgs forward = c.forward();
    AttentionBackwardArgs backward = c.backward();
    forward.in.p = backward.in.p = p;
    EXPECT_EQ(is_fused(forward), is_fused(backward)) << c.n << ' ' << p;
    EXPECT_EQ(drops_as_cudnn(forward.in), is_fused(forward)) << c.n << ' ' << p;
    return is_fused(forward);
  };
  EXPECT_TRUE(fused({}, 0.1));
  EXPECT_TRUE(fused({.n = 2}, 0.1));
  EXPECT_FALSE(fused({.n = 1}, 0.1));
  EXPECT_FALSE(fused({}, 1));
  EXPECT_FALSE(fused({}, 1 - 1e-4)) << "in f32, 1 - p is coarse";
  EXPECT_FALSE(fused({}, 1e-7));
  EXPECT_TRUE(fused({}, 0.999));
  EXPECT_TRUE(fused({}, 1e-6));
  EXPECT_FALSE(fused({.d = 60}, 0.1));
  EXPECT_FALSE(fused({.b = 1, .h = 2, .g = 1, .n = 16'000, .m = 16'384}, 0.1)) << "the scores of a group are too many";
  EXPECT_FALSE(drops_as_cudnn(Case{}.forward().in)) << "nothing is dropped";
}

TEST_F(FusedAttentionRuns, AsItsPlansSay) {
  EXPECT_EQ(attention_plans().attention.plan(Case{}.forward()).algorithm, fused_attention);
  EXPECT_EQ(attention_plans().attention_backward.plan(Case{}.backward()).algorithm, fused_attention);
  EXPECT_NE(attention_plans().attention.plan(Case{.d = 60}.forward()).algorithm, fused_attention);
  EXPECT_EQ(attention_plans().attention.plan(Case{}.forward()).workspace, 256u);
}

/// The workspaces that cuDNN 9.14 asks for on an H100.
TEST(FusedAttention, WorkspaceIsCudnns) {
  struct Measured {
    Case c;
    std::size_t bytes;
  };
  for (const auto& [c, bytes] :
       {Measured{{16, 12, 12, 1024, 1024}, 403'439'872}, Measured{{8, 12, 12, 1024, 1024}, 201'720'064},
        Measured{{1, 4, 4, 2, 2}, 65'832}, Measured{{1, 4, 4, 65, 65}, 132'376},
        Measured{{64, 4, 4, 200, 200}, 33'760'000}, Measured{{2, 4, 4, 1, 300}, 393'520},
        Measured{{2, 4, 4, 257, 300}, 1'974'576}, Measured{{2, 4, 4, 128, 300}, 790'800},
        Measured{{2, 4, 4, 33, 31}, 132'400}, Measured{{2, 4, 4, 256, 256, 128, 64}, 1'057'024},
        Measured{{2, 8, 1, 256, 256}, 3'162'368}, Measured{{2, 8, 4, 256, 256}, 3'162'368},
        Measured{{2, 8, 2, 200, 200, 128, 128}, 3'748'624}}) {
    const FusedAttention f(c.backward(), nullptr);
    const std::size_t lengths = f.lengths.defined() ? 8 * static_cast<std::size_t>(c.b) : 0;
    EXPECT_EQ(f.library_bytes + lengths, bytes) << c.n << ' ' << c.m;
  }
}

TEST(FusedAttention, ChunksHaveEachHeadOnce) {
  std::mt19937_64 generator{7};
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(1 + generator() % static_cast<std::uint64_t>(most));
  };
  for (int i = 0; i < 200; ++i) {
    Case c{.b = up_to(20), .g = up_to(6), .n = up_to(1 << up_to(13)), .m = 1 + up_to(1 << up_to(13))};
    c.h = c.g * up_to(4);
    const AttentionBackwardArgs a = c.backward();
    if (!is_fused(a)) continue;
    const auto chunks = fused_chunks(a);
    const auto at = [](const ConstView& x) { return reinterpret_cast<std::intptr_t>(x.data()); };
    std::set<std::array<std::intptr_t, 2>> heads;
    for (const AttentionBackwardArgs& chunk : chunks) {
      const FusedAttention f(chunk, nullptr);
      EXPECT_LE(f.library_bytes, most_fused_bytes);
      EXPECT_LE(f.bytes, attention_plans().attention_backward.plan(a).workspace);
      EXPECT_EQ(f.size.heads_per_group(), c.h / c.g);
      for (std::int64_t batch = 0; batch < f.size.batch; ++batch)
        for (std::int64_t head = 0; head < f.size.heads; ++head) {
          const auto address = [&](const ConstView& x, std::int64_t of_head) {
            return at(x) + 2 * (batch * x.strides[0] + of_head * x.strides[1]);
          };
          const std::int64_t group = head / f.size.heads_per_group();
          EXPECT_EQ(address(chunk.gq, head), address(chunk.in.q, head));
          EXPECT_EQ(address(chunk.gk, group), address(chunk.in.k, group));
          EXPECT_TRUE(heads.insert({address(chunk.in.q, head), address(chunk.in.k, group)}).second);
        }
    }
    EXPECT_EQ(static_cast<std::int64_t>(heads.size()), c.b * c.h);
  }
}

// The stride of a dim of size 1 means nothing in the first chunk, and moves the address of the others.
TEST_F(FusedAttentionRuns, InChunksOfWhichOnlySomeAreCopied) {
  const Case c{.b = 2, .h = 16, .g = 16, .n = 4096, .m = 4096};
  AttentionArgs forward = c.forward();
  AttentionBackwardArgs backward = c.backward();
  forward.in.p = backward.in.p = 0.1;
  forward.in.q.strides[0] += 4;
  backward.in.q.strides[0] += 4;
  const auto expect_enough = [](const auto& chunks, std::size_t planned) {
    ASSERT_EQ(chunks.size(), 4u);
    EXPECT_FALSE(FusedAttention(chunks.front(), nullptr).read[0].is_copied);
    EXPECT_TRUE(FusedAttention(chunks.back(), nullptr).read[0].is_copied);
    for (const auto& chunk : chunks) EXPECT_LE(FusedAttention(chunk, nullptr).bytes, planned);
  };
  expect_enough(fused_chunks(forward), attention_plans().attention.plan(forward).workspace);
  expect_enough(fused_chunks(backward), attention_plans().attention_backward.plan(backward).workspace);
}

TEST(FusedAttention, RoundsDropoutToWhatFloatsHold) {
  AttentionArgs a = Case{}.forward();
  for (const double p : {0.1, 0.2, 0.3, 0.4, 0.999, 1e-6}) {
    a.in.p = p;
    const double used = FusedAttention(a, nullptr).p;
    EXPECT_NEAR(used, p, 0x1p-25);
    EXPECT_EQ(1 - used, static_cast<double>(1 - static_cast<float>(used))) << p;
  }
}

TEST(FusedAttention, HasTheSameChunksInBothPassesWithDropout) {
  const Case c{.b = 5, .h = 8, .g = 4, .n = 3000, .m = 3000};
  AttentionArgs forward = c.forward();
  AttentionBackwardArgs backward = c.backward();
  EXPECT_EQ(fused_chunks(forward).size(), 1u);
  forward.in.p = backward.in.p = 0.2;
  forward.in.state = backward.in.state = {.seed = 3, .offset = 1000};
  const auto of_forward = fused_chunks(forward);
  const auto of_backward = fused_chunks(backward);
  EXPECT_GT(of_forward.size(), 1u);
  AttentionArgs of_gpu_test = Case{.b = 70, .h = 4, .g = 2, .n = 640, .m = 1400}.forward();
  of_gpu_test.in.p = 0.3;
  EXPECT_EQ(fused_chunks(of_gpu_test).size(), 2u);
  ASSERT_EQ(of_forward.size(), of_backward.size());
  for (std::size_t i = 0; i < of_forward.size(); ++i) {
    EXPECT_EQ(of_forward[i].in.q.data(), of_backward[i].in.q.data());
    EXPECT_EQ(of_forward[i].in.q.shape, of_backward[i].in.q.shape);
    EXPECT_EQ(of_forward[i].in.state.offset, 1000 + i) << "each chunk has a mask of its own";
    EXPECT_EQ(of_backward[i].in.state.offset, 1000 + i);
    EXPECT_TRUE(FusedAttention(of_forward[i], nullptr).seed.defined());
  }
}

TEST(FusedAttention, CopiesWhatCudnnCannotRead) {
  const Case c;
  const auto copied = [&](const AttentionArgs& a) {
    const FusedAttention f(a, nullptr);
    int count = 0;
    for (const FusedOperand& x : f.read) count += x.is_copied;
    EXPECT_EQ(f.bytes, 256 + static_cast<std::size_t>(count) * static_cast<std::size_t>(a.in.k.numel()) * 2);
    return count;
  };
  EXPECT_EQ(copied(c.forward()), 0);
  AttentionArgs a = c.forward();
  a.in.k = View(reinterpret_cast<void*>(4098), DType::bf16, Device::cuda(), a.in.k.shape, a.in.k.strides);
  EXPECT_EQ(copied(a), 1) << "an address";
  a = c.forward();
  a.in.k.strides = {20 * 4 * 64 + 4, 64, 256, 1};
  EXPECT_EQ(copied(a), 1) << "a stride";
  a = c.forward();
  a.in.k.strides = {4 * 64 * 20, 20 * 64, 1, 20};
  EXPECT_EQ(copied(a), 1) << "head sizes that are not adjacent";
  a = c.forward();
  a.in.k.strides = {0, 64, 256, 1};
  a.in.v.strides = {0, 64, 256, 1};
  EXPECT_EQ(copied(a), 2) << "batches that are repeated";
  a = Case{.b = 1}.forward();
  a.in.k.strides[0] = 3;
  EXPECT_EQ(copied(a), 0) << "the stride of a dim of size 1 means nothing";
}

TEST(FusedAttention, HoldsGradientsThatNobodyNeeds) {
  AttentionBackwardArgs a = Case{}.backward();
  const std::size_t all = FusedAttention(a, nullptr).bytes;
  a.gk = {};
  EXPECT_EQ(FusedAttention(a, nullptr).bytes, all + static_cast<std::size_t>(a.in.k.numel()) * 2);
  a.gq = {}, a.gv = {};
  EXPECT_EQ(FusedAttention(a, nullptr).bytes,
            all + static_cast<std::size_t>(a.in.q.numel() + a.in.k.numel() + a.in.v.numel()) * 2);
}

}  // namespace
}  // namespace bytetape::cuda
