// When our own fused attention runs, and its workspace. Both are decided on the host.
#include <gtest/gtest.h>

#include "bytetape/cuda/attention/flash_attention.h"
#include "bytetape/cuda/plans.h"
#include "tests/cuda/gpu.h"

namespace bytetape::cuda {
namespace {

/// The shapes of an attention, with the letters of core/kernels/attention.h. Heads are inside tokens.
struct Case {
  std::int64_t b = 2, h = 4, g = 4, n = 16, m = 20, d = 64, e = 64;
  DType dtype = DType::f32;

  View tensor(std::int64_t heads, std::int64_t tokens, std::int64_t width) const {
    return View(reinterpret_cast<void*>(4096), dtype, Device::cuda(), {b, heads, tokens, width},
                {tokens * heads * width, width, heads * width, 1});
  }
  View per_row() const {
    return View(reinterpret_cast<void*>(4096), DType::f32, Device::cuda(), {b, h, n}, contiguous_strides({b, h, n}));
  }
  AttentionInputs in() const { return {.q = tensor(h, n, d), .k = tensor(g, m, d), .v = tensor(g, m, e)}; }
  AttentionArgs forward() const { return {in(), tensor(h, n, e), per_row(), per_row()}; }
  AttentionBackwardArgs backward() const {
    return {in(),           tensor(h, n, e), per_row(), per_row(), tensor(h, n, e), tensor(h, n, d), tensor(g, m, d),
            tensor(g, m, e)};
  }
};

bool takes(const Case& c) {
  EXPECT_EQ(is_flash(c.forward()), is_flash(c.backward()));
  return is_flash(c.forward());
}

TEST(FlashAttention, RunsForF32ThatMayRoundToTf32) {
  EXPECT_FALSE(takes({}));
  const test::AllowTf32 tf32(true);
  EXPECT_TRUE(takes({}));
  EXPECT_TRUE(takes({.g = 1, .n = 1, .m = 1, .d = 4, .e = 4}));
  EXPECT_TRUE(takes({.d = 128, .e = 128}));
  EXPECT_FALSE(takes({.dtype = DType::bf16}));
  EXPECT_FALSE(takes({.dtype = DType::f64}));
  EXPECT_FALSE(takes({.d = 62, .e = 62}));
  EXPECT_FALSE(takes({.d = 132, .e = 132}));
  EXPECT_FALSE(takes({.d = 32}));
  EXPECT_FALSE(takes({.d = 0, .e = 0}));
  EXPECT_FALSE(takes({.m = 0}));
  EXPECT_FALSE(takes({.n = 0}));
  EXPECT_FALSE(takes({.b = 0}));
}

TEST(FlashAttention, LeavesMasksAndDropoutToProducts) {
  const test::AllowTf32 tf32(true);
  AttentionArgs a = Case{}.forward();
  a.in.p = 0.1;
  EXPECT_FALSE(is_flash(a));
  a = Case{}.forward();
  a.in.may_fuse = false;
  EXPECT_FALSE(is_flash(a));
  a = Case{}.forward();
  a.in.mask = View(nullptr, DType::boolean, Device::cuda(), {2, 4, 16, 20}, {0, 0, 0, 1});
  EXPECT_FALSE(is_flash(a));
}

TEST(FlashAttention, NeedsVectors) {
  const test::AllowTf32 tf32(true);
  const auto with = [](auto member, const auto& change) {
    AttentionBackwardArgs a = Case{}.backward();
    change(member(a));
    return is_flash(a);
  };
  const auto every = [&](const auto& change) {
    const bool some = with([](auto& a) -> ConstView& { return a.in.q; }, change) ||
                      with([](auto& a) -> ConstView& { return a.in.k; }, change) ||
                      with([](auto& a) -> ConstView& { return a.in.v; }, change) ||
                      with([](auto& a) -> ConstView& { return a.y; }, change) ||
                      with([](auto& a) -> ConstView& { return a.gy; }, change) ||
                      with([](auto& a) -> View& { return a.gq; }, change) ||
                      with([](auto& a) -> View& { return a.gk; }, change) ||
                      with([](auto& a) -> View& { return a.gv; }, change);
    return !some;
  };
  EXPECT_TRUE(every([](auto& x) {
    x = std::remove_reference_t<decltype(x)>(reinterpret_cast<void*>(4100), x.dtype, x.device, x.shape, x.strides);
  })) << "one element in";
  for (int d = 0; d < 3; ++d) EXPECT_TRUE(every([d](auto& x) { x.strides[d] += 1; })) << d;
  EXPECT_TRUE(every([](auto& x) { x.strides[3] = 2; }));
  EXPECT_FALSE(every([](auto& x) { x.strides[0] += 4; }));
}

TEST(FlashAttention, TakesTwoFloatsForEachQueryInBackward) {
  const test::AllowTf32 tf32(true);
  EXPECT_EQ(attention_plans().attention.plan(Case{}.forward()).workspace, 0u);
  const Plan plan = attention_plans().attention_backward.plan(Case{}.backward());
  EXPECT_EQ(plan.algorithm, flash_attention);
  EXPECT_EQ(plan.workspace, 2u * 4 * 16 * 2 * sizeof(float));
}

}  // namespace
}  // namespace bytetape::cuda
