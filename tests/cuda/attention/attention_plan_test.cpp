// How attention is cut into blocks and products, and the scratch that this takes. All of it is decided on the host, and
// needs no GPU.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

#include "bytetape/cuda/attention/attention_workspace.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// The shapes of an attention, with the letters of core/kernels/attention.h.
struct Case {
  std::int64_t b, h, g, n, m, d = 64, e = 64;
  bool is_causal = false, is_inside = false;  // is_inside: heads are inside tokens
  DType dtype = DType::f32;

  View tensor(std::int64_t heads, std::int64_t tokens, std::int64_t width) const {
    const Shape shape{b, heads, tokens, width};
    const Strides inside{tokens * heads * width, width, heads * width, 1};
    return View(nullptr, dtype, Device::cuda(), shape, is_inside ? inside : contiguous_strides(shape));
  }
  View q() const { return tensor(h, n, d); }
  View k() const { return tensor(g, m, d); }
  View v() const { return tensor(g, m, e); }
  View y() const { return tensor(h, n, e); }
  View per_row() const {
    const Shape shape{b, h, n};
    return View(nullptr, accumulated(dtype), Device::cuda(), shape, contiguous_strides(shape));
  }
  /// Not for cuDNN, whose fused attention takes no blocks.
  AttentionInputs in() const { return {.q = q(), .k = k(), .v = v(), .is_causal = is_causal, .may_fuse = false}; }
  AttentionArgs forward() const { return {in(), y(), per_row(), per_row()}; }
  AttentionBackwardArgs backward() const { return {in(), y(), per_row(), per_row(), y(), q(), k(), v()}; }
  std::size_t forward_bytes() const { return attention_plans().attention.plan(forward()).workspace; }
  std::size_t backward_bytes() const { return attention_plans().attention_backward.plan(backward()).workspace; }
};

Case random_case(std::mt19937_64& generator) {
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(1 + generator() % static_cast<std::uint64_t>(most));
  };
  Case c{.b = up_to(9), .h = 1, .g = up_to(6), .n = up_to(1 << up_to(13)), .m = up_to(1 << up_to(15))};
  c.h = c.g * up_to(6);
  c.d = up_to(9), c.e = up_to(9);
  c.is_causal = generator() % 2, c.is_inside = generator() % 2;
  c.dtype = std::array{DType::f64, DType::f32, DType::bf16}[generator() % 3];
  return c;
}

TEST(AttentionBlocks, TakeEachQueryOnceAndFitTheirMemory) {
  std::mt19937_64 generator{3};
  for (int i = 0; i < 200; ++i) {
    const Case c = random_case(generator);
    SCOPED_TRACE(detail::concat(c.q().shape, c.k().shape, c.is_causal ? " causal" : ""));
    const std::int64_t bytes = 6;
    const AttentionBlocks blocks(c.in(), bytes);
    EXPECT_EQ(blocks.pitch % 8, 0);
    EXPECT_GE(blocks.pitch, c.m);
    const std::int64_t per_group = c.h / c.g;
    std::set<std::array<std::int64_t, 3>> tiles;  // the first row of each head in each block
    std::int64_t rows = 0;
    blocks.for_chunks([&](const AttentionBlock& chunk) {
      int firsts = 0;
      std::int64_t most_keys = chunk.keys;
      blocks.for_blocks(chunk, [&](const AttentionBlock& b) {
        firsts += blocks.is_first(b);
        EXPECT_EQ(firsts, 1) << "the first block comes first";
        EXPECT_LE(b.keys, most_keys) << "later blocks have no other keys";
        most_keys = b.keys;
        EXPECT_EQ(b.keys, c.is_causal ? std::min(c.m, b.i + b.rows) : c.m);
        const AttentionBlock most = blocks.largest();
        EXPECT_TRUE(b.batches <= most.batches && b.groups <= most.groups && b.heads <= most.heads &&
                    b.rows <= most.rows && b.keys <= most.keys);
        EXPECT_TRUE(b.count() == 1 || b.count() * blocks.pitch * bytes <= most_block_bytes);
        EXPECT_LE(b.i + b.rows, c.n);
        rows += b.count();
        for (std::int64_t batch = b.batch; batch < b.batch + b.batches; ++batch)
          for (std::int64_t group = b.group; group < b.group + b.groups; ++group)
            for (std::int64_t head = b.head; head < b.head + b.heads; ++head)
              EXPECT_TRUE(tiles.insert({batch, group * per_group + head, b.i}).second);
      });
      EXPECT_EQ(firsts, 1);
    });
    EXPECT_EQ(rows, c.b * c.h * c.n);
  }
}

TEST(AttentionBlocks, OfACausalMaskSkipKeys) {
  for (const std::int64_t n : {512, 1024, 4096, 10'000}) {
    const AttentionBlocks blocks(Case{.b = 1, .h = 2, .g = 2, .n = n, .m = n, .is_causal = true}.in(), 4);
    std::int64_t scores = 0;
    blocks.for_chunks([&](const AttentionBlock& chunk) {
      blocks.for_blocks(chunk, [&](const AttentionBlock& b) { scores += b.count() * b.keys; });
    });
    EXPECT_LT(static_cast<double>(scores), (n < 1024 ? 0.76 : 0.63) * static_cast<double>(2 * n * n)) << n;
  }
}

TEST(AttentionPlan, IsBoundedForLongSequences) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const std::int64_t n : {2048, 16'384, 131'072}) {
      const Case c{.b = 4, .h = 16, .g = 16, .n = n, .m = n, .dtype = dtype};
      const std::size_t products = (dtype == DType::f32 ? 32 : 8) * mib;  // what cuBLASLt may use
      EXPECT_LE(c.forward_bytes(), most_block_bytes + products) << dtype << ' ' << n;
      EXPECT_GE(c.forward_bytes(), most_block_bytes / 2) << "uses what it may";
      // Each row has a product of y and its gradient. In 16 bits, sums of a chunk are added.
      const std::size_t rows = static_cast<std::size_t>(c.b * c.h * n) * size_of(accumulated(dtype));
      const std::size_t sums = dtype == DType::bf16 ? 2 * static_cast<std::size_t>(n * c.d) * sizeof(float) : 0;
      EXPECT_LE(c.backward_bytes(), most_block_bytes + products + rows + sums + 4096) << dtype << ' ' << n;
    }
}

TEST(AttentionPlan, OfOneBlockHoldsScoresAlone) {
  const Case c{.b = 2, .h = 4, .g = 4, .n = 16, .m = 20};
  const std::size_t scores = 2 * 4 * 16 * 24;            // padded to 24 keys
  const std::size_t library = 2 * 4 * 16 * 64 * 4 * 16;  // of the product with the most results, y
  EXPECT_EQ(c.forward_bytes(), 4 * scores + library);
  Case half = c;
  half.dtype = DType::f16;
  EXPECT_EQ(half.forward_bytes(), 6 * scores + library) << "probabilities in 16 bits";
  const std::size_t dots = 2 * 4 * 16 * 4, key_library = 2 * 4 * 20 * 64 * 4 * 16;
  EXPECT_EQ(c.backward_bytes(), 8 * scores + dots + key_library);
  EXPECT_EQ(half.backward_bytes(), 12 * scores + dots + key_library) << "gk and gv are made in place";
}

TEST(AttentionPlan, HoldsOnlyWhatTheGradientsNeed) {
  const Case c{.b = 2, .h = 4, .g = 4, .n = 16, .m = 20, .dtype = DType::bf16};
  const auto of = [&](bool q, bool k, bool v) {
    AttentionBackwardArgs a = c.backward();
    if (!q) a.gq = {};
    if (!k) a.gk = {};
    if (!v) a.gv = {};
    return AttentionBackward(a, nullptr);
  };
  const std::size_t scores = 2 * 4 * 16 * 24, dots = 2 * 4 * 16 * 4;
  const auto held = [](const AttentionBackward& f) { return f.bytes - f.products.bytes; };
  EXPECT_EQ(held(of(true, true, true)), 12 * scores + dots);
  EXPECT_EQ(held(of(false, false, true)), 6 * scores);
  EXPECT_EQ(held(of(true, false, false)), 10 * scores + dots);
  EXPECT_EQ(held(of(false, true, false)), 10 * scores + dots);
  EXPECT_EQ(of(false, false, true).products.bytes, of(true, true, true).products.bytes);
  EXPECT_LT(of(true, false, false).products.bytes, of(true, true, true).products.bytes);
}

TEST(AttentionPlan, SumsGradientsOfKeysInF32) {
  const auto sums = [](const Case& c) {
    const AttentionBackwardArgs a = c.backward();
    const AttentionBackward f(a, nullptr);
    EXPECT_EQ(f.gk.is_copied, f.gv.is_copied);
    return f.gk.is_copied;
  };
  Case c{.b = 1, .h = 4, .g = 4, .n = 512, .m = 512};
  EXPECT_FALSE(sums(c));
  c.is_causal = true;
  EXPECT_FALSE(sums(c)) << "f32 is summed in place";
  c.dtype = DType::bf16;
  EXPECT_TRUE(sums(c)) << "over blocks";
  c.is_causal = false;
  EXPECT_FALSE(sums(c));
  c.g = 2;
  EXPECT_TRUE(sums(c)) << "over heads of a group";
}

TEST(AttentionPlan, OfNoQueriesIsEmpty) {
  for (const Case& c : {Case{0, 2, 2, 3, 3}, Case{2, 0, 2, 3, 3}, Case{2, 2, 2, 0, 3}}) {
    EXPECT_EQ(c.forward_bytes(), 0u);
    EXPECT_EQ(c.backward_bytes(), 0u);
  }
  EXPECT_GT((Case{2, 2, 2, 3, 0}.forward_bytes()), 0u) << "queries without keys give 0";
}

TEST(AttentionPlan, HoldsTheScratchOfEachProduct) {
  std::mt19937_64 generator{5};
  for (int i = 0; i < 100; ++i) {
    Case c = random_case(generator);
    SCOPED_TRACE(detail::concat(c.q().shape, c.k().shape, c.is_causal ? " causal" : ""));
    AttentionArgs forward = c.forward();
    AttentionBackwardArgs backward = c.backward();
    if (generator() % 2)  // keys with gaps, which products copy
      for (AttentionInputs* in : {&forward.in, &backward.in})
        for (std::int64_t& s : in->k.strides) s *= 2;
    const auto expect_fits = [](const Workspace& ws) {
      return [ws](const MatmulArgs& args) { EXPECT_LE(matmul_plans().matmul.plan(args).workspace, ws.bytes); };
    };
    const AttentionForward f(forward, nullptr);
    const AttentionBackward back(backward, nullptr);
    f.blocks.for_chunks([&](const AttentionBlock& chunk) {
      f.blocks.for_blocks(chunk, [&](const AttentionBlock& b) {
        f.make_scores(b, expect_fits(f.products));
        f.make_y(b, expect_fits(f.products));
      });
    });
    back.blocks.for_chunks([&](const AttentionBlock& chunk) {
      back.blocks.for_blocks(chunk, [&](const AttentionBlock& b) {
        back.make_scores(b, expect_fits(back.products));
        back.make_slopes(b, expect_fits(back.products));
        back.make_gq(b, expect_fits(back.products));
        back.add_gk(b, expect_fits(back.products));
        back.add_gv(b, expect_fits(back.products));
      });
    });
  }
}

TEST(AttentionProducts, AreAsFewAsStridesAllow) {
  const auto calls = [](const Case& c) {
    const AttentionArgs a = c.forward();
    const AttentionForward f(a, nullptr);
    std::int64_t calls = 0, products = 0;
    f.make_scores(f.blocks.largest(), [&](const MatmulArgs& args) {
      ++calls;
      products += args.y.shape[0];
      EXPECT_EQ(args.y.shape, (Shape{args.y.shape[0], c.n, c.m}));
    });
    EXPECT_EQ(products, c.b * c.h);
    return calls;
  };
  EXPECT_EQ(calls({.b = 3, .h = 8, .g = 8, .n = 16, .m = 20}), 1);
  EXPECT_EQ(calls({.b = 3, .h = 8, .g = 8, .n = 16, .m = 20, .is_inside = true}), 3) << "one for each batch";
  EXPECT_EQ(calls({.b = 9, .h = 8, .g = 8, .n = 16, .m = 20, .is_inside = true}), 8) << "one for each head";
  EXPECT_EQ(calls({.b = 3, .h = 8, .g = 1, .n = 16, .m = 20}), 3) << "heads that share keys are one call";
  EXPECT_EQ(calls({.b = 3, .h = 8, .g = 4, .n = 16, .m = 20}), 2) << "one for each head of a group";
  EXPECT_EQ(calls({.b = 1, .h = 8, .g = 1, .n = 16, .m = 20, .is_inside = true}), 1);
}

}  // namespace
}  // namespace bytetape::cuda
