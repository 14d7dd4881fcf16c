// How kernels for GPUs are cut into blocks, and the scratch that this takes: all of it is decided on the host, and
// needs no GPU.
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/norm/batch_norm.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/core/kernels/gather.h"
#include "bytetape/core/kernels/group_norm.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/kernels/random.h"
#include "bytetape/core/kernels/rms_norm.h"
#include "bytetape/cuda/conv/conv_direct.h"
#include "bytetape/cuda/matmul/matmul_layout.h"
#include "bytetape/cuda/reduce/reduce_layout.h"
#include "bytetape/cuda/reduce/sort.h"
#include "bytetape/cuda/reduce/sort_rows.h"
#include "tests/cuda/gpu.h"

namespace bytetape::cuda {
namespace {

View dense(const Shape& shape, DType dtype = DType::f32) {
  return View(nullptr, dtype, Device::cuda(), shape, contiguous_strides(shape));
}
View image(const Shape& shape, DType dtype = DType::f32) {
  return View(nullptr, dtype, Device::cuda(), shape, channels_last_strides(shape));
}
template <class I>
bool is_enough(I blocks, I each, I all) {
  return blocks * each >= all && (blocks - 1) * each < std::max<I>(all, 1);
}

class Reductions : public testing::TestWithParam<DType> {
 protected:
  std::mt19937_64 generator{5};
  std::int64_t size(int bits) {
    return static_cast<std::int64_t>(1 + (generator() >> (64 - 1 - generator() % static_cast<unsigned>(bits))));
  }
  /// A tensor of up to four dims, some of which are reduced, and in any order in memory.
  std::pair<ConstView, View> random() {
    const int rank = static_cast<int>(1 + generator() % 4);
    Shape shape, kept;
    Dims order;
    for (int d = 0; d < rank; ++d) {
      shape.push_back(size(26 / rank));
      kept.push_back(generator() % 2 ? 1 : shape[d]);
      order.push_back(d);
    }
    std::shuffle(order.begin(), order.end(), generator);
    Strides strides = shape;
    std::int64_t step = 1;
    for (const std::int64_t d : order) {
      strides[static_cast<int>(d)] = step;
      step *= shape[static_cast<int>(d)];
    }
    return {ConstView(nullptr, GetParam(), Device::cuda(), shape, strides), dense(kept, GetParam())};
  }
};
INSTANTIATE_TEST_SUITE_P(, Reductions, testing::Values(DType::f64, DType::f32, DType::bf16, DType::u8));

void expect_all_covered(const ReduceLayout& r, std::size_t element) {
  for (const int n : {r.along, r.across, r.threads}) EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(n)));
  EXPECT_LE(r.along * r.across, r.threads);
  EXPECT_LE(r.threads, 1024);
  EXPECT_TRUE(is_enough(r.splits, r.chunk, r.inputs));
  if (r.is_by_column) {
    const std::int64_t width = r.kept.shape.back(), runs = r.outputs / width, rows = r.threads / (r.across * r.along);
    EXPECT_EQ(r.blocks, ((width + r.across * r.lanes - 1) / (r.across * r.lanes)) * ((runs + rows - 1) / rows));
    EXPECT_EQ(r.lanes, column_lanes(element));
  } else {
    EXPECT_EQ(r.across, 1);
    EXPECT_TRUE(is_enough<std::int64_t>(r.blocks, r.threads / r.along, r.outputs));
    EXPECT_TRUE(r.lanes == 1 || r.lanes == row_lanes(element));
    if (r.reduced.shape.size() > 1) { EXPECT_EQ(r.reduced.shape.back() % r.lanes, 0) << "lanes lie in one run"; }
  }
}

TEST_P(Reductions, CoverEveryElementOnce) {
  for (int i = 0; i < 2000; ++i) {
    const auto [x, y] = random();
    SCOPED_TRACE(bytetape::detail::concat(x.shape, x.strides, " to ", y.shape));
    const std::size_t element = size_of(x.dtype);
    const ReduceLayout whole = reduce_layout(x, y, false), r = reduce_layout(x, y, true);
    expect_all_covered(whole, element);
    expect_all_covered(r, element);
    EXPECT_EQ(whole.splits, 1);
    EXPECT_EQ(reduce_plans().sum.plan(SumArgs{x, y}).workspace,
              r.splits == 1 ? 0u : static_cast<std::size_t>(r.splits * r.outputs) * 8);
    if (r.splits == 1) continue;
    const ReduceLayout second = second_layout(r, 8);
    expect_all_covered(second, 8);
    EXPECT_EQ(second.inputs, r.splits);
    EXPECT_EQ(second.outputs, r.outputs);
  }
}

// What is large fills a GPU, whatever its shape; what is small is no second launch.
TEST_P(Reductions, OfManyElementsTakeManyBlocks) {
  int large = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto [x, y] = random();
    SCOPED_TRACE(bytetape::detail::concat(x.shape, x.strides, " to ", y.shape));
    const ReduceLayout r = reduce_layout(x, y, true);
    if (x.numel() >= 1 << 22) { EXPECT_GE(r.blocks * r.splits, 100); }
    if (x.numel() <= 1 << 15) { EXPECT_EQ(r.splits, 1); }
    EXPECT_LE(r.splits, 2 * 528);
    large += x.numel() >= 1 << 22;
  }
  EXPECT_GT(large, 50);
}

// Threads lie side by side along the dim whose elements do, unless it repeats one.
TEST(ReducePlan, ReadsWhatLiesSideBySide) {
  struct Case {
    const char* what;
    Shape shape;
    Strides strides;
    Shape kept;
    bool is_by_column;
    int lanes;  // of f32
  };
  const Case cases[] = {
      {"rows", {200, 300}, {300, 1}, {200, 1}, false, 4},
      {"columns", {200, 300}, {300, 1}, {1, 300}, true, 4},
      {"rows of a transposed matrix", {200, 300}, {1, 200}, {200, 1}, true, 4},
      {"its columns", {200, 300}, {1, 200}, {1, 300}, false, 4},
      {"all", {200, 300}, {300, 1}, {1, 1}, false, 4},
      {"one row of columns", {1, 300}, {300, 1}, {1, 300}, true, 4},
      {"one that repeats", {1, 300}, {300, 0}, {1, 300}, true, 4},
      {"one element", {1, 1}, {1, 1}, {1, 1}, false, 4},
      {"rows of an element that repeats", {200, 300}, {1, 0}, {200, 1}, true, 4},
      {"columns of one", {200, 300}, {0, 1}, {1, 300}, true, 4},
      {"rows of columns that repeat", {200, 300}, {0, 1}, {200, 1}, false, 4},
      {"an odd run", {200, 301}, {301, 1}, {200, 1}, false, 4},
      {"runs of whole lanes", {200, 3, 8}, {48, 16, 1}, {200, 1, 1}, false, 4},
      {"runs of others", {200, 3, 6}, {48, 16, 1}, {200, 1, 1}, false, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const ReduceLayout r =
        reduce_layout(ConstView(nullptr, DType::f32, Device::cuda(), c.shape, c.strides), dense(c.kept), true);
    EXPECT_EQ(r.is_by_column, c.is_by_column);
    EXPECT_EQ(r.lanes, c.lanes);
  }
}

TEST(MatmulPlan, CopiesMatricesThatNoLibraryReads) {
  struct Case {
    std::int64_t rows, cols, row_step, col_step, leading;
    bool is_transposed;
  };
  const Case cases[] = {
      {20, 30, 30, 1, 30, false}, {20, 30, 1, 20, 20, true}, {20, 30, 64, 1, 64, false}, {20, 30, 1, 64, 64, true},
      {20, 30, 29, 1, 0, false},  {20, 30, 1, 19, 0, false}, {20, 30, 60, 2, 0, false},  {20, 30, 0, 1, 0, false},
      {1, 30, 0, 1, 30, false},   {20, 1, 1, 0, 1, false},   {20, 1, 5, 0, 5, false},    {1, 30, 7, 2, 2, true},
      {1, 1, 0, 0, 1, false},     {20, 1, 0, 3, 0, false},   {1, 30, 3, 0, 0, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(bytetape::detail::concat(c.rows, " x ", c.cols, " in steps ", c.row_step, ", ", c.col_step));
    const ConstView odd(nullptr, DType::f32, Device::cuda(), {2, c.rows, c.cols}, {4096, c.row_step, c.col_step});
    const MatrixLayout layout = layout_of(odd);
    EXPECT_EQ(layout.leading, c.leading);
    EXPECT_EQ(layout.transposed, c.is_transposed);
    const std::size_t copy = c.leading ? 0 : aligned(static_cast<std::size_t>(2 * c.rows * c.cols) * sizeof(float));
    const auto plan = [](const ConstView& a, const ConstView& b) {
      return matmul_plans().matmul.plan({a, b, {}, dense({2, a.shape[1], b.shape[2]})});
    };
    const Plan first = plan(odd, dense({2, c.cols, 8})), second = plan(dense({2, 8, c.rows}), odd);
    EXPECT_EQ(first.workspace, static_cast<std::size_t>(first.algorithm) + copy);
    EXPECT_EQ(second.workspace, static_cast<std::size_t>(second.algorithm) + copy);
  }
}

// Sixteen partial results, in f32 or wider; at most 8 MiB, 32 MiB in full f32, or the cap.
TEST(MatmulPlan, HoldsPartialResults) {
  const auto of = [](std::int64_t n, DType dtype, WorkspaceCap cap = {}) {
    return library_workspace({dense({1, n, n}, dtype), dense({1, n, n}, dtype), {}, dense({1, n, n}, dtype)}, cap);
  };
  EXPECT_EQ(of(64, DType::f32), 16 * 64 * 64 * 4u);
  EXPECT_EQ(of(64, DType::bf16), 16 * 64 * 64 * 4u);
  EXPECT_EQ(of(64, DType::f64), 16 * 64 * 64 * 8u);
  EXPECT_EQ(of(5, DType::f32), aligned(16 * 5 * 5 * 4));
  EXPECT_EQ(of(4096, DType::bf16), 8u << 20);
  EXPECT_EQ(of(4096, DType::f64), 8u << 20);
  EXPECT_EQ(of(4096, DType::f32), 32u << 20);
  {
    const test::AllowTf32 tf32(true);
    EXPECT_EQ(of(4096, DType::f32), 8u << 20);
  }
  EXPECT_EQ(of(4096, DType::f32, 1 << 20), 1u << 20);
  EXPECT_EQ(of(4096, DType::f32, 64 << 20), 64u << 20);
  EXPECT_EQ(of(64, DType::f32, 64 << 20), 16 * 64 * 64 * 4u);
}

struct Problem {
  Shape x, weight;
  Conv2dParams params;
};
Shape shape_of_y(const Problem& p) {
  Shape y{p.x[0], p.weight[0], 0, 0};
  for (int d = 0; d < 2; ++d)
    y[2 + d] =
        (p.x[2 + d] + 2 * p.params.padding[d] - p.params.dilation[d] * (p.weight[2 + d] - 1) - 1) / p.params.stride[d] +
        1;
  return y;
}

// Among the tiles that fit, the one with which a GPU is done first; from the definition, tile by tile.
TEST(DirectConv, TakesTheCheapestTiles) {
  std::mt19937_64 generator(7);
  const auto below = [&](int n) { return static_cast<std::int64_t>(generator() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 500; ++i) {
    const std::int64_t c = 1 + below(4), k = 1 + below(5);
    const Problem p{{1 + below(300), c, k + below(200), k + below(200)},
                    {4 * (1 + below(32)), c, k, k},
                    {.stride = 1 + below(3), .padding = below(3), .dilation = 1}};
    SCOPED_TRACE(bytetape::detail::concat(p.x, p.weight));
    const Shape y = shape_of_y(p);
    const ConvSizes s(image(p.x), image(p.weight), image(y), p.params);
    const DirectConv d(s, ConvMap::forward);
    if (d.tile_h == 0) continue;
    EXPECT_TRUE(is_enough(d.down, d.tile_h, d.oh) && is_enough(d.across, d.tile_w, d.ow));
    EXPECT_EQ(d.tiles, p.x[0] * d.down * d.across);
    EXPECT_LE(d.shared, ConvTiles::most_shared);
    const std::size_t pixel = static_cast<std::size_t>(DirectConv::width(d.channels)) * sizeof(float),
                      room = ConvTiles::most_shared - ConvTiles::places - d.weight_bytes();
    const std::int64_t at_once =
        divide_up<std::int64_t>(ConvTiles::processors * DirectConv::forward_blocks(d.channels), d.output_groups);
    const auto cost = [&](int h) {
      return divide_up<std::int64_t>(s.n * d.across * divide_up(d.oh, h), at_once) * (h * d.tile_w + 64);
    };
    for (int h = 1; h <= d.oh && h * d.tile_w <= ConvTiles::most_pixels; ++h) {
      const auto rows = static_cast<std::size_t>((h - 1) * d.stride[0] + (d.kh - 1) * d.dilation[0] + 1);
      if (rows * static_cast<std::size_t>(d.columns) * pixel <= room) { EXPECT_LE(cost(d.tile_h), cost(h)) << h; }
    }
  }
}

TEST(DirectConv, SharesWeightGradientsInSharedMemory) {
  for (const std::int64_t c : {1, 2, 3, 4})
    for (const std::int64_t o : {4, 8, 64, 100, 512})
      for (const std::int64_t n : {1, 7, 256}) {
        const Problem p{{n, c, 30, 34}, {o, c, 3, 3}, {.padding = 1}};
        const ConvSizes s(image(p.x), image(p.weight), image(shape_of_y(p)), p.params);
        const DirectConv d(s, ConvMap::weight_grad);
        ASSERT_GT(d.tile_h, 0);
        EXPECT_EQ(d.channels, c == 2 ? 3 : c);
        EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(d.lanes)) && d.lanes <= ConvTiles::warp);
        EXPECT_GE(d.output_groups * d.lanes * DirectConv::quad, o);
        EXPECT_GE(d.tap_groups * DirectConv::taps_a_thread(d.channels), 9);
        EXPECT_LE(d.blocks, d.tiles);
        EXPECT_LE(d.shared, ConvTiles::most_shared);
        EXPECT_GE(d.shared, d.values + ConvTiles::places);
        const auto sums = (DirectConv::taps_a_thread(d.channels) * d.channels + 1) * d.lanes * DirectConv::quad;
        EXPECT_GE(d.shared, static_cast<std::size_t>(sums) * sizeof(float));
      }
}

TEST(ConvPlan, OfABiasGradientHoldsItsSumsToo) {
  const Problem p{{32, 64, 56, 56}, {64, 64, 3, 3}, {.padding = 1}};
  const View x = image(p.x), w = image(p.weight), gy = image(shape_of_y(p)), gb = dense({64});
  const auto workspace = [&](const View& bias) {
    return conv_plans()
        .conv2d_weight_grad.plan(Conv2dWeightGradArgs{.x = x, .gy = gy, .gw = w, .gb = bias, .params = p.params})
        .workspace;
  };
  EXPECT_GT(workspace(gb), workspace(View()));
}

TEST(CrossEntropyPlan, SharesARowByItsClasses) {
  const auto of = [](std::int64_t n, std::int64_t classes, bool takes_logits = true) {
    const View rows = dense({n});
    return loss_plans().cross_entropy.plan(
        CrossEntropyArgs{.logits = dense({n, classes}), .lse = takes_logits ? rows : View()});
  };
  for (const auto& [classes, lanes] :
       {std::pair{1, 4}, {16, 4}, {17, 8}, {64, 8}, {65, 32}, {1024, 32}, {1025, 0}, {50'000, 0}}) {
    EXPECT_EQ(of(1, classes).algorithm, lanes) << classes;
    EXPECT_EQ(of(1, classes).workspace, 0u) << "one block";
    EXPECT_EQ(of(1, classes, false).algorithm, 1) << "of log-probabilities one is read";
  }
  EXPECT_EQ(of(2, 50'000).workspace, 2 * 16u) << "a block a row";
  EXPECT_EQ(of(2048, 10).workspace, 0u);
  EXPECT_GT(of(2049, 10).workspace, 0u) << "passes";
  EXPECT_EQ(of(1 << 11, 16).workspace, 0u);
  EXPECT_EQ(of(32, 1024).workspace, 0u);
  EXPECT_GT(of(33, 1024).workspace, 0u) << "elements";
  EXPECT_EQ(of(1 << 13, 100, false).workspace, 0u);
  EXPECT_EQ(of(64'000, 10).workspace, 1000 * 16u) << "64 rows a block";
  EXPECT_EQ(of(1 << 22, 10).workspace, 4096 * 16u) << "as many blocks as are useful";
}

TEST(LayerNormPlan, AddsUpSharesWhereThereAreSeveral) {
  const auto of = [](std::int64_t rows, std::int64_t n, bool weight, bool bias) {
    const View w = dense({n});
    return layer_norm_plans().layer_norm_backward.plan(
        {.x = dense({rows, n}), .mean = dense({rows}), .gw = weight ? w : View(), .gb = bias ? w : View()});
  };
  EXPECT_EQ(of(16, 1024, true, true).workspace, 0u);
  EXPECT_EQ(of(0, 0, true, true).workspace, 0u);
  EXPECT_EQ(of(4096, 1024, false, false).workspace, 0u);
  for (const auto& [rows, n] : {std::pair{4096, 1024}, {100'000, 64}, {20, 10'000}}) {
    const Plan p = of(rows, n, true, true);
    EXPECT_GT(p.algorithm, 1);
    EXPECT_LE(p.algorithm, n <= 256 ? 792 : 264);
    EXPECT_EQ(p.workspace, static_cast<std::size_t>(2 * p.algorithm * n) * sizeof(float));
    for (const bool weight : {true, false}) EXPECT_EQ(of(rows, n, weight, !weight).workspace, p.workspace);
  }
  for (const auto& [n, most] : {std::pair{64, 792}, {256, 792}, {257, 264}, {4096, 264}})
    EXPECT_EQ(of(792 * 1000, n, true, true).algorithm, most) << "narrow rows take more blocks";
}

TEST(RmsNormPlan, HasHalfTheSharesOfLayerNorm) {
  const View x = dense({4096, 1024}), w = dense({1024});
  const Plan p = rms_norm_plans().rms_norm_backward.plan({.x = x, .gw = w});
  EXPECT_GT(p.algorithm, 1);
  EXPECT_EQ(p.workspace, static_cast<std::size_t>(p.algorithm * 1024) * sizeof(float));
  EXPECT_EQ(rms_norm_plans().rms_norm_backward.plan({.x = x}).workspace, 0u);
}

TEST(BatchNormPlan, HoldsWhatRunsLeaveAndWhatTheGradientNeeds) {
  const auto of = [](const Shape& shape, bool training, bool gx, bool gw, bool gb, bool masked) {
    const View x = image(shape), c = dense({shape[1]});
    return batch_norm_plans().batch_norm_backward.plan(BatchNormBackwardArgs{.x = x,
                                                                             .training = training,
                                                                             .masked = masked ? x : View(),
                                                                             .gx = gx ? x : View(),
                                                                             .gw = gw ? c : View(),
                                                                             .gb = gb ? c : View()});
  };
  for (const Shape& shape : {Shape{2, 8, 4, 4}, Shape{64, 64, 56, 56}, Shape{256, 2048, 7, 7}}) {
    const std::int64_t runs = batch_norm_plans().batch_norm_train.plan({.statistics = {.x = image(shape)}}).algorithm;
    EXPECT_EQ(runs == 1, shape[0] == 2);
    const std::size_t numbers = static_cast<std::size_t>(shape[1]) * sizeof(float),
                      partials = runs > 1 ? static_cast<std::size_t>(2 * runs) * numbers : 0;
    EXPECT_EQ(batch_norm_plans().batch_norm_train.plan({.statistics = {.x = image(shape)}}).workspace, partials);
    EXPECT_EQ(of(shape, true, true, true, true, true).workspace, partials + 2 * numbers);
    EXPECT_EQ(of(shape, true, false, false, false, false).workspace, partials);
    EXPECT_EQ(of(shape, false, true, false, false, false).workspace, 0u) << "nothing is summed";
    for (int alone = 0; alone < 3; ++alone)
      EXPECT_EQ(of(shape, false, true, alone == 0, alone == 1, alone == 2).workspace, partials) << alone;
  }
}

TEST(BatchNormPlan, HasAsManyBlocksInEachLayout) {
  const Shape shape{64, 64, 56, 56};
  const auto runs = [](const View& x) {
    return batch_norm_plans().batch_norm_train.plan({.statistics = {.x = x}}).algorithm;
  };
  EXPECT_EQ(runs(image(shape)), 64) << "of two blocks side by side, each of 32 channels";
  EXPECT_EQ(runs(dense(shape)), 2) << "of a block for each channel";
}

// ResNet-18's last two stages in 16 bits with 128 images, and the last one with 256. Earlier stages are too large.
TEST(BatchNormPlan, HoldsSmallImagesInRegisters) {
  const auto tiles = [](std::int64_t images, std::int64_t channels, std::int64_t side) {
    return held_tiles(channels / 8, images * side * side);
  };
  using Numbers = std::array<int, 4>;
  const auto numbers = [](const HeldTiles& t) { return Numbers{t.columns, t.ranks, t.width, t.per_thread}; };
  EXPECT_EQ(numbers(*tiles(128, 512, 4)), (Numbers{8, 8, 8, 4}));
  EXPECT_EQ(numbers(*tiles(128, 256, 8)), (Numbers{8, 8, 4, 8}));
  EXPECT_EQ(numbers(*tiles(256, 512, 4)), (Numbers{8, 8, 8, 8}));
  EXPECT_FALSE(tiles(128, 128, 16));
  EXPECT_FALSE(tiles(512, 512, 4));
  EXPECT_EQ(numbers(*tiles(2, 8, 1)), (Numbers{1, 1, 1, 4})) << "a vector of channels";
  EXPECT_FALSE(held_tiles(256 / 8, 128 * 8 * 8, 4)) << "eight pixels a thread";
  EXPECT_FALSE(tiles(128, 48, 4)) << "four threads do not divide six vectors";
  for (std::int64_t vectors = 1; vectors <= 300; ++vectors)
    for (const std::int64_t pixels : {2, 300, 1000, 2048, 2049, 8192, 8193})
      if (const std::optional<HeldTiles> t = held_tiles(vectors, pixels)) {
        EXPECT_EQ(t->columns * t->width, vectors);
        EXPECT_GE(t->ranks * (run_threads / t->width) * t->per_thread, pixels);
        EXPECT_LE(t->ranks, most_ranks);
      }
}

// Sums of 16-bit floats are f32.
TEST(NormPlans, CountInTheDTypeOfTheirSums) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const std::size_t number = dtype == DType::f64 ? 8 : 4;
    const View x = image({64, 64, 56, 56}, dtype), rows = dense({4096, 1024}, dtype), w = dense({64});
    const Plan statistics = batch_norm_plans().batch_norm_train.plan({.statistics = {.x = x}}),
               backward = batch_norm_plans().batch_norm_backward.plan({.x = x, .training = true, .gx = x}),
               layer = layer_norm_plans().layer_norm_backward.plan({.x = rows, .mean = w, .gw = w});
    const auto runs = static_cast<std::size_t>(statistics.algorithm);
    ASSERT_GT(runs, 1u);
    EXPECT_EQ(backward.algorithm, statistics.algorithm);
    EXPECT_EQ(statistics.workspace, 2 * runs * 64 * number);
    EXPECT_EQ(backward.workspace, (2 * runs + 2) * 64 * number);
    EXPECT_EQ(layer.workspace, static_cast<std::size_t>(2 * layer.algorithm) * 1024 * number);
    EXPECT_EQ(group_norm_plans().group_norm_backward.plan({.x = x}).workspace, 2 * 64 * 64 * number);
  }
}

TEST(IndexSumPlan, SortsTheIndicesOfWhatThereIs) {
  const auto bytes = [](std::int64_t m, const Shape& y, int dim) {
    return indexing_plans().index_sum.plan({.index = dense({m}, DType::i64), .dim = dim, .y = dense(y)}).workspace;
  };
  EXPECT_EQ(bytes(100, {0, 5}, 0), 0u);
  EXPECT_EQ(bytes(0, {40, 5}, 0), sort_buffer(41)) << "where each begins";
  EXPECT_EQ(bytes(100, {40, 500}, 0), 4 * sort_buffer(100) + sort_buffer(41) + sort_scratch(100));
  EXPECT_EQ(bytes(100, {40, 500}, 1), 4 * sort_buffer(100) + sort_buffer(501) + sort_scratch(100));
}

TEST(IndexSumPlan, DividesRunsOfManyPlaces) {
  const auto bytes = [](std::int64_t m, DType dtype) {
    const IndexSumArgs args{.index = dense({m}, DType::i64), .dim = 0, .y = dense({40, 500}, dtype)};
    return indexing_plans().index_sum.plan(args).workspace - 4 * sort_buffer(m) - sort_buffer(41) - sort_scratch(m);
  };
  EXPECT_EQ(bytes(256, DType::f32), 0u);
  EXPECT_EQ(bytes(16384, DType::bf16), 128u * 500 * 4) << "chunks of 128 places, summed in f32";
  EXPECT_EQ(bytes(16384, DType::f64), 128u * 500 * 8);
}

TEST(ScatterPlan, SortsLongLinesAndWritesInPlace) {
  const auto bytes = [](const Shape& index, bool in_place) {
    const View y = dense({1000, 1000});
    const ScatterArgs args{dense(index), dense(index, DType::i64), 1, y, in_place};
    EXPECT_LE(gather_plans().scatter.plan(args).workspace, gather_plans().scatter_add.plan(args).workspace);
    return gather_plans().scatter.plan(args).workspace;
  };
  EXPECT_EQ(bytes({500, 32}, false), 0u);
  EXPECT_EQ(bytes({500, 33}, false), 4 * sort_buffer(500 * 33) + sort_scratch(500 * 33));
  EXPECT_EQ(bytes({500, 1}, true), 4 * sort_buffer(500) + sort_scratch(500));
  EXPECT_EQ(bytes({0, 33}, true), 0u);
}

TEST(RandpermPlan, HoldsTheIndicesTwiceWhereTheResultHasGaps) {
  const auto bytes = [](std::int64_t stride) {
    const View y(nullptr, DType::i64, Device::cuda(), {1000}, {stride});
    return random_plans().randperm.plan(RandpermArgs{.state = {}, .y = y}).workspace;
  };
  EXPECT_GE(bytes(1), 3 * 1000 * sizeof(std::int64_t)) << "keys twice, indices once";
  EXPECT_EQ(bytes(2), bytes(1) + sort_buffer(1000));
}

TEST(SortPlan, SortsInABlockOrSelectsOrTakesScratch) {
  using Way = SortRows::Way;
  const auto of = [](const Shape& shape, std::int64_t k, DType dtype) {
    return SortArgs{.x = dense(shape, dtype), .dim = 1, .indices = dense({shape[0], k}, DType::i64)};
  };
  const auto way = [&](const Shape& shape, std::int64_t k, DType dtype = DType::f32) {
    return SortRows(of(shape, k, dtype)).way;
  };
  EXPECT_EQ(way({0, 5}, 5), Way::none);
  EXPECT_EQ(way({5, 0}, 0), Way::none);
  EXPECT_EQ(way({5, 9000}, 0), Way::none);
  EXPECT_EQ(way({3, 4096}, 4096), Way::in_block);
  EXPECT_EQ(way({3, 4097}, 4097), Way::radix);
  EXPECT_EQ(way({3, 2048}, 2048, DType::i64), Way::in_block);
  EXPECT_EQ(way({3, 2049}, 2049, DType::i64), Way::radix);
  EXPECT_EQ(way({3, 50'257}, 1024), Way::selected);
  EXPECT_EQ(way({3, 50'257}, 1025), Way::radix);
  EXPECT_EQ(way({3, 5'000'000'000}, 5), Way::radix) << "an index needs more than 32 bits";

  const auto bytes = [&](const Shape& shape, std::int64_t k) {
    return sort_plans().sort.plan(of(shape, k, DType::f32)).workspace;
  };
  EXPECT_EQ(bytes({3, 4096}, 4096), 0u);
  EXPECT_EQ(bytes({3, 50'257}, 64), 0u);
  EXPECT_EQ(bytes({3, 5000}, 5000), 4 * sort_buffer(15'000) + sort_scratch(15'000));

  const SortRows small(of({1 << 20, 5000}, 5000, DType::f32)), wide(of({3, 5000}, 5000, DType::f64)),
      single(of({1, 5000}, 5000, DType::f64));
  EXPECT_EQ(small.row_bits, 20);
  EXPECT_TRUE(small.has_joint_keys() && single.has_joint_keys() && !wide.has_joint_keys());
}

}  // namespace
}  // namespace bytetape::cuda
