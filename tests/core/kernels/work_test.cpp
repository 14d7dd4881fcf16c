#include "bytetape/core/kernels/work.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/attention.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/gather.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/kernels/layer_norm.h"
#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape {
namespace {

/// A view of the shape in row-major order, at no address that a kernel could use.
View view(const Shape& shape, DType dtype = DType::f32) {
  static double element;
  return {&element, dtype, Device::cpu(), shape, contiguous_strides(shape)};
}

TEST(Work, OfAViewIsItsElementsWithoutRepeats) {
  EXPECT_EQ(moved_bytes(view({3, 5})), 60u);
  EXPECT_EQ(moved_bytes(view({3, 5}, DType::bf16)), 30u);
  EXPECT_EQ(moved_bytes(view({})), 4u);
  EXPECT_EQ(moved_bytes(view({0, 5})), 0u);
  EXPECT_EQ(moved_bytes(view({1, 5}).expand({7, 5})), 20u) << "a row that is broadcast";
  EXPECT_EQ(moved_bytes(view({0}).expand({7, 0})), 0u);
  EXPECT_EQ(moved_bytes(ConstView()), 0u);
  EXPECT_EQ(moved_bytes(ConstView::constant(2, DType::f32, Device::cpu(), {7, 5})), 0u);
}

TEST(Work, OfViewsAndNumbersIsThatOfTheViews) {
  const memory::Work work = work_of(view({10}), 3, 2.5, view({1}).expand({10}), view({10}));
  EXPECT_EQ(work.bytes, 40u + 4u + 40u);
  EXPECT_EQ(work.flop, 0u);
  const std::vector<ConstView> from{view({2}), view({3})};
  const std::array<View, 2> to{view({2}), view({3}, DType::f64)};
  EXPECT_EQ(work_of(std::span<const ConstView>(from), std::span<const View>(to)).bytes, 20u + 8u + 24u);
  EXPECT_EQ(work_of(from).bytes, 20u) << "a list that is no span";
}

TEST(Work, OfAStructIsThatOfItsFields) {
  EXPECT_EQ(work_of(LayerNormArgs{view({8, 16}), view({16}), {}, 1e-5, view({8, 16}), view({8}), view({8})}).bytes,
            4u * (128 + 16 + 128 + 8 + 8));
  const LayerNormArgs adds{view({8, 16}), {},           {}, 1e-5, view({8, 16}), view({8}), view({8}),
                           view({8, 16}), view({8, 16})};
  EXPECT_EQ(work_of(adds).bytes, 4u * (4 * 128 + 8 + 8)) << "the last fields count";
  const BatchNormBackwardArgs most{view({2, 3}), view({3}),    {},        view({3}), view({3}),
                                   {},           view({2, 3}), 0,         true,      Activation::none,
                                   {},           view({2, 3}), view({3}), view({3}), view({2, 3})};
  EXPECT_EQ(work_of(most).bytes, 4u * (4 * 6 + 5 * 3)) << "15 fields";
}

TEST(Work, OfAProductIsTwoOperationsForEachPair) {
  const MatmulArgs args{view({2, 3, 4}, DType::bf16), view({2, 4, 5}, DType::bf16), {}, view({2, 3, 5}, DType::f32)};
  EXPECT_EQ(work_of(args).flop, 2u * 2 * 3 * 4 * 5);
  EXPECT_EQ(work_of(args).dtype, DType::bf16);
  EXPECT_EQ(work_of(args).bytes, 2u * (24 + 40) + 4u * 30);
  MatmulArgs adds = args;
  adds.accumulates = true;
  EXPECT_EQ(work_of(adds).bytes, work_of(args).bytes + 4u * 30) << "y is read too";
}

TEST(Work, OfAConvolutionIsThatOfItsPatches) {
  const std::uint64_t flop = 2u * (2 * 4 * 6 * 6) * (3 * 3 * 3);  // for two groups of three channels
  const View x = view({2, 6, 8, 8}), weight = view({4, 3, 3, 3}), y = view({2, 4, 6, 6});
  const Conv2dParams two_groups{.groups = 2};
  EXPECT_EQ(work_of(Conv2dArgs{x, weight, {}, y, two_groups}).flop, flop);
  EXPECT_EQ(work_of(Conv2dArgs{x, weight, {}, y, two_groups}).bytes, 4u * (768 + 108 + 288));
  EXPECT_EQ(work_of(Conv2dInputGradArgs{y, weight, x, two_groups}).flop, flop);
  Conv2dWeightGradArgs low{view({2, 6, 8, 8}, DType::bf16), view({2, 4, 6, 6}, DType::bf16), weight, {}, two_groups};
  EXPECT_EQ(work_of(low).flop, flop);
  EXPECT_EQ(work_of(low).dtype, DType::bf16) << "of the factors, not of the f32 gradient";
}

TEST(Work, OfAttentionIsThatOfPairsThatAttend) {
  const std::int64_t b = 2, h = 4, n = 5, m = 7, d = 8, e = 16;
  AttentionInputs in{view({b, h, n, d}), view({b, 2, m, d}), view({b, 2, m, e})};
  const View y = view({b, h, n, e}), row = view({b, h, n});
  const auto flop = [&] { return static_cast<std::int64_t>(work_of(AttentionArgs{in, y, row, row}).flop); };
  EXPECT_EQ(flop(), 2 * b * h * n * m * (d + e));
  EXPECT_EQ(work_of(AttentionArgs{in, y, row, row}).bytes,
            4u * static_cast<std::uint64_t>(b * (h * n * d + 2 * m * (d + e)) + b * h * n * (e + 2)));
  const AttentionBackwardArgs backward{in, y, row, row, y, in.q.rank() ? view({b, h, n, d}) : View(), {}, {}};
  EXPECT_EQ(static_cast<std::int64_t>(work_of(backward).flop), 2 * b * h * n * m * (3 * d + 2 * e));
  in.is_causal = true;
  EXPECT_EQ(flop(), 2 * b * h * (1 + 2 + 3 + 4 + 5) * (d + e));
  in.k = view({b, 2, 3, d});
  in.v = view({b, 2, 3, e});
  EXPECT_EQ(flop(), 2 * b * h * (1 + 2 + 3 + 3 + 3) * (d + e)) << "more queries than keys";
}

TEST(Work, OfSelectedSlicesIsTheirs) {
  const View table = view({1000, 4}), index = view({3}, DType::i64), slices = view({3, 4});
  EXPECT_EQ(work_of(IndexSelectArgs{table, index, 0, slices}).bytes, 24u + 2 * 48);
  EXPECT_EQ(work_of(IndexWriteArgs{slices, index, 0, table}).bytes, 24u + 2 * 48);
  EXPECT_EQ(work_of(IndexSumArgs{slices, index, 0, table}).bytes, 24u + 48 + 16000) << "writes the whole result";
  EXPECT_EQ(work_of(GatherArgs{table, view({3, 4}, DType::i64), 0, slices}).bytes, 96u + 2 * 48);
  EXPECT_EQ(work_of(ScatterArgs{slices, view({3, 4}, DType::i64), 0, table, false}).bytes, 96u + 2 * 48);
}

TEST(Work, OfWhatIsUpdatedIsReadingAndWriting) {
  AdamSlot slot;
  slot.parameter = slot.exp_avg = slot.exp_avg_sq = view({10});
  slot.gradient = slot.shadow = view({10}, DType::bf16);
  const std::vector<AdamSlot> slots{slot, slot};
  EXPECT_EQ(work_of(std::span<const AdamSlot>(slots), AdamParams{}).bytes, 2u * (3 * 80 + 20 + 20));
  SgdSlot sgd;
  sgd.parameter = sgd.momentum_buffer = view({10});
  sgd.gradient = view({10});
  EXPECT_EQ(work_of(std::vector<SgdSlot>{sgd}, SgdParams{}).bytes, 80u + 40 + 80);
  const std::vector<View> gradients{view({10})};
  EXPECT_EQ(work_of(ClipGradNormArgs{gradients, view({}), 1}).bytes, 3u * 40 + 4);
  const CrossEntropyInPlaceArgs loss{view({6, 10}), view({6}, DType::i64), -100, true, view({6})};
  EXPECT_EQ(work_of(loss).bytes, 2u * 240 + 48 + 24);
}

}  // namespace
}  // namespace bytetape
