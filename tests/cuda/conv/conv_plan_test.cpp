// Which algorithm makes which convolution, and what its workspace holds. All of it is decided on the host, from
// geometry, dtype and addresses, and needs no GPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "bytetape/cuda/conv/conv_direct.h"
#include "bytetape/cuda/conv/conv_mma.h"
#include "bytetape/cuda/conv/conv_warpgroup.h"
#include "bytetape/cuda/conv/im2col.h"
#include "bytetape/cuda/matmul/matmul_layout.h"
#include "bytetape/cuda/plans.h"
#include "tests/cuda/gpu.h"

namespace bytetape::cuda {
namespace {

using test::AllowTf32;

/// A tensor of a convolution: where it lies, and in which order.
struct Operand {
  std::uintptr_t at = 256;
  bool is_row_major = false;
  std::optional<DType> dtype = {};  // another than x's

  View view(const Shape& s, DType common) const {
    const bool is_image = s.size() == 4 && !is_row_major;
    return View(reinterpret_cast<void*>(at), dtype.value_or(common), Device::cuda(), s,
                is_image ? channels_last_strides(s) : contiguous_strides(s));
  }
};

struct Case {
  DType dtype = DType::f32;
  std::int64_t n = 8, c = 64, h = 8, w = 8, o = 64, kh = 3, kw = 3;
  Conv2dParams params = {};
  bool tf32 = false;
  Operand x = {}, weight = {}, bias = {}, y = {};
  bool has_bias = false;

  Shape x_shape() const { return {n, c, h, w}; }
  Shape w_shape() const { return {o, c / params.groups, kh, kw}; }
  Shape y_shape() const {
    const auto size = [&](int d, std::int64_t in, std::int64_t k) {
      return (in + 2 * params.padding[d] - params.dilation[d] * (k - 1) - 1) / params.stride[d] + 1;
    };
    return {n, o, size(0, h, kh), size(1, w, kw)};
  }
  View image() const { return x.view(x_shape(), dtype); }
  View kernel() const { return weight.view(w_shape(), dtype); }
  View result() const { return y.view(y_shape(), dtype); }
  View vector() const { return has_bias ? bias.view({o}, dtype) : View(); }
  ConvSizes sizes() const { return ConvSizes(image(), kernel(), result(), params); }

  Plan forward() const {
    const AllowTf32 allow(tf32);
    return conv_plans().conv2d.plan(Conv2dArgs{image(), kernel(), vector(), result(), params});
  }
  Plan input_grad() const {
    const AllowTf32 allow(tf32);
    return conv_plans().conv2d_input_grad.plan(Conv2dInputGradArgs{result(), kernel(), image(), params});
  }
  Plan weight_grad() const {
    const AllowTf32 allow(tf32);
    return conv_plans().conv2d_weight_grad.plan(
        Conv2dWeightGradArgs{.x = image(), .gy = result(), .gw = kernel(), .gb = vector(), .params = params});
  }
  bool widens() const {
    const AllowTf32 allow(tf32);
    return conv_plans().widens_weight_grad({image(), result(), kernel(), {}, params});
  }
};

using Change = std::function<void(Case&)>;
struct Row {
  const char* what;
  Change change;
};
Case changed(Case c, const Change& change) {
  change(c);
  return c;
}

// A side of a dim that the other does not share.
Size2 high(std::int64_t v, std::int64_t other = 1) { return {v, other}; }
Size2 wide(std::int64_t v, std::int64_t other = 1) { return {other, v}; }

constexpr std::int64_t far = 1 << 12;  // a step that libraries are not given

// Sizes that are too large for the libraries. Each row exceeds one limit.
const Row large[] = {
    {"stride, h", [](Case& c) { c.params.stride = high(far); }},
    {"stride, w", [](Case& c) { c.params.stride = wide(far); }},
    {"padding, h", [](Case& c) { c.params.padding = high(far, 0); }},
    {"padding, w", [](Case& c) { c.params.padding = wide(far, 0); }},
    {"dilation, h", [](Case& c) { c.params.dilation = high(far), c.h = 3 * far; }},
    {"dilation, w", [](Case& c) { c.params.dilation = wide(far), c.w = 3 * far; }},
    {"kernel, h", [](Case& c) { c.kh = c.h = far, c.c = c.o = 8; }},
    {"kernel, w", [](Case& c) { c.kw = c.w = far, c.c = c.o = 8; }},
    {"x", [](Case& c) { c.n = 1 << 17, c.c = 1 << 12, c.o = 8, c.h = c.w = 3; }},
    {"y", [](Case& c) { c.n = 1 << 17, c.c = 8, c.o = 1 << 14, c.h = c.w = 3; }},
    {"weight", [](Case& c) { c.n = 1, c.c = 1 << 14, c.o = 1 << 14, c.h = c.w = 3; }},
};
// The largest of each that they are given.
const Row not_large[] = {
    {"stride", [](Case& c) { c.params.stride = far - 1; }},
    {"padding", [](Case& c) { c.params.padding = far - 1, c.n = 1, c.o = 8; }},
    {"dilation", [](Case& c) { c.params.dilation = far - 1, c.h = c.w = 2 * far, c.n = 1, c.c = 8, c.o = 8; }},
    {"kernel", [](Case& c) { c.kh = c.h = far - 1, c.c = c.o = 8; }},
};

TEST(ConvPlan, WidensWhatCudnnMakes) {
  const Case base{.dtype = DType::bf16};
  EXPECT_TRUE(base.widens());
  for (const Row& r : not_large) EXPECT_TRUE(changed(base, r.change).widens()) << r.what;
  for (const Row& r : large) EXPECT_FALSE(changed(base, r.change).widens()) << r.what;
  const Row others[] = {
      {"f32", [](Case& c) { c.dtype = DType::f32; }},
      {"no images", [](Case& c) { c.n = 0; }},
      {"a weight in another order", [](Case& c) { c.weight.is_row_major = true; }},
      {"few channels on tensor cores", [](Case& c) { c.c = 3; }},
      {"few channels on others", [](Case& c) { c.c = 3, c.o = 12; }},
  };
  for (const Row& r : others) EXPECT_FALSE(changed(base, r.change).widens()) << r.what;
  const auto row_major = [](Case& c) { c.x.is_row_major = c.y.is_row_major = c.weight.is_row_major = true; };
  EXPECT_TRUE(changed(base, row_major).widens()) << "in the order of its images";
}

// ---- copies

std::size_t bytes_of(const Shape& s, DType dtype) {
  return aligned(static_cast<std::size_t>(numel(s)) * size_of(dtype));
}

/// Returns the bytes that the workspace of `c` has beyond that of `right`, whose operands need no copies.
std::size_t more(Plan (Case::*plan)() const, const Case& c, const Case& right) {
  return (c.*plan)().workspace - (right.*plan)().workspace;
}

constexpr Plan (Case::*maps[])() const = {&Case::forward, &Case::input_grad, &Case::weight_grad};

TEST(ConvPlan, OfEachMapCopiesWhatCudnnCannotRead) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Case base{.dtype = dtype, .o = 24};
    for (const auto& map : maps) {
      const auto copies = [&](const Change& change) { return more(map, changed(base, change), base); };
      const std::size_t x = bytes_of(base.x_shape(), dtype), w = bytes_of(base.w_shape(), dtype),
                        y = bytes_of(base.y_shape(), dtype);
      EXPECT_EQ(copies([](Case& c) { c.x.at += 8; }), x);
      EXPECT_EQ(copies([](Case& c) { c.weight.at += 8; }), w);
      EXPECT_EQ(copies([](Case& c) { c.y.at += 8; }), y);
      EXPECT_EQ(copies([](Case& c) { c.x.at += 8, c.weight.at += 8, c.y.at += 8; }), x + w + y);
      EXPECT_EQ(copies([](Case& c) { c.x.at += 16, c.weight.at += 16, c.y.at += 16; }), 0u);
      EXPECT_EQ(copies([](Case& c) { c.weight.is_row_major = true; }), w) << "cuDNN has it in its images' order";
      EXPECT_EQ(copies([](Case& c) { c.x.is_row_major = c.y.is_row_major = true; }), w);
      EXPECT_EQ(copies([](Case& c) { c.x.is_row_major = c.y.is_row_major = c.weight.is_row_major = true; }), 0u);
    }
  }
  const Case with_bias{.o = 24, .has_bias = true};
  EXPECT_EQ(more(&Case::forward, changed(with_bias, [](Case& c) { c.bias.at += 8; }), with_bias),
            bytes_of({24}, DType::f32));
  const Case low{.dtype = DType::bf16};
  EXPECT_EQ(more(&Case::weight_grad, changed(low, [](Case& c) { c.weight.dtype = DType::f32; }), low),
            bytes_of(low.w_shape(), DType::bf16))
      << "which cuDNN makes in x's dtype";
}

// Products of patches read any order and any address.
TEST(ConvPlan, CopiesNothingThatCudnnDoesNotTake) {
  const auto copies = [](const Case& c) {
    const auto odd = [](Case& v) { v.x.at = v.y.at = v.weight.at = 264; };
    for (const auto& map : maps) EXPECT_EQ(more(map, changed(c, odd), c), 0u);
  };
  const Case base{.n = 1, .o = 24};
  for (const Row& r : large) {
    SCOPED_TRACE(r.what);
    copies(changed(base, r.change));
  }
  copies(changed(base, [](Case& c) { c.dtype = DType::f64; }));
  for (const bool x_is : {true, false})
    copies(changed(base, [&](Case& c) { c.x.is_row_major = x_is, c.y.is_row_major = !x_is; }));
  Case none = base;
  none.n = 0;
  for (const auto& map : maps) EXPECT_EQ((none.*map)().workspace, 0u) << "no images";
}

TEST(ConvPlan, OfAMaskedGradientCopiesThatOne) {
  const Case c{.o = 24};
  const auto workspace = [&](std::uintptr_t gy, std::uintptr_t masked) {
    Conv2dWeightGradArgs a{.x = c.image(), .gy = Operand{gy}.view(c.y_shape(), c.dtype), .gw = c.kernel()};
    a.activation = Activation::relu;
    a.y = c.result();
    a.masked = Operand{masked}.view(c.y_shape(), c.dtype);
    return conv_plans().conv2d_weight_grad.plan(a).workspace;
  };
  EXPECT_EQ(workspace(264, 256), workspace(256, 256));
  EXPECT_EQ(workspace(256, 264), workspace(256, 256) + bytes_of(c.y_shape(), c.dtype));
}

// ---- scratch

TEST(CudnnWorkspace, IsBoundedByWhatItsEnginesAskFor) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto of = [](const Case& c, WorkspaceCap cap = {}) {
    const AllowTf32 allow(c.tf32);
    return cudnn_workspace(c.sizes(), cap);
  };
  const auto tensors = [](const Case& c) {
    return static_cast<std::size_t>(numel(c.x_shape()) + numel(c.y_shape()) + numel(c.w_shape())) * size_of(c.dtype);
  };
  const Case f64{.dtype = DType::f64}, f32{}, tf32{.tf32 = true}, low{.dtype = DType::bf16};
  EXPECT_EQ(of(f64), 0u);
  EXPECT_EQ(of(f32), tensors(f32) + mib);
  EXPECT_EQ(of(tf32), 4 * tensors(tf32) + mib / 16);
  EXPECT_EQ(of(low), 4 * tensors(low) + mib / 16) << "which tensor cores take whether TF32 is allowed or not";
  // Channels that fill no 16 bytes, of either side, and groups are padded in copies.
  for (const auto& [dtype, unit] : {std::pair{DType::f32, 4}, {DType::bf16, 8}}) {
    const Case whole{.dtype = dtype, .c = 5 * unit, .o = 7 * unit, .tf32 = true};
    EXPECT_EQ(of(whole), 4 * tensors(whole) + mib / 16);
    for (const Change& change : {Change([](Case& c) { c.c += 2; }), Change([](Case& c) { c.o += 2; }),
                                 Change([](Case& c) { c.params.groups = c.c / 5, c.o = 7 * c.params.groups; })}) {
      const Case odd = changed(whole, change);
      EXPECT_EQ(of(odd), 2 * tensors(odd) + 2 * mib);
    }
  }
  // Bounds and caps.
  const auto huge = [](Case c) { return c.n = 4096, c.h = c.w = 64, c; };
  const Case padded{.c = 66, .tf32 = true};
  for (const auto& [c, most] : {std::pair{f32, 256 * mib}, {tf32, 4 * mib}, {padded, 64 * mib}}) {
    EXPECT_EQ(of(huge(c)), most);
    EXPECT_EQ(of(huge(c), 3 * mib), 3 * mib);
    EXPECT_EQ(of(huge(c), 512 * mib), 512 * mib);
    EXPECT_EQ(of(c, 512 * mib), of(c)) << "a cap is no room that is taken";
  }
}

TEST(Im2col, TakesAsManyRowsAsFitItsBuffer) {
  for (const auto& [dtype, most] : {std::pair{DType::f32, 2 << 20}, {DType::bf16, 2 << 20}, {DType::f64, 16 << 20}})
    for (const ConvMap map : {ConvMap::forward, ConvMap::input_grad, ConvMap::weight_grad}) {
      const Case c{.dtype = dtype, .n = 200, .c = 24, .h = 20, .w = 20, .o = 32, .params = {.groups = 4}};
      const Im2col d(c.sizes(), map, {});
      const bool back = map == ConvMap::input_grad;
      const std::int64_t element = dtype == DType::f64 ? 8 : 4;
      EXPECT_EQ(d.pixels, back ? 200 * 20 * 20 : 200 * 18 * 18);
      EXPECT_EQ(d.seen, back ? 8 : 6);
      EXPECT_EQ(d.made, back ? 6 : 8);
      EXPECT_EQ(d.patch(), 9 * d.seen);
      EXPECT_EQ(d.rows, most / (4 * (d.patch() + d.made) * element));
      EXPECT_EQ(d.values - d.patches, aligned(static_cast<std::size_t>(d.rows * 4 * d.patch() * element)));
      EXPECT_EQ(d.weights - d.values, aligned(static_cast<std::size_t>(d.rows * 4 * d.made * element)));
      const std::size_t parts = map == ConvMap::weight_grad ? 2 : 1;
      EXPECT_EQ(d.products - d.weights, parts * aligned(static_cast<std::size_t>(4 * d.made * d.patch() * element)));
      EXPECT_EQ(d.total - d.products, library_workspace(d.product(nullptr, d.rows, 0, Device::cuda()), {}))
          << "no operand is copied";
    }
  const auto rows = [](const Case& c) { return Im2col(c.sizes(), ConvMap::forward, {}).rows; };
  EXPECT_EQ(rows({.n = 1, .c = 1, .h = 4, .w = 4, .o = 1}), 4) << "all there are";
  EXPECT_EQ(rows({.n = 1, .c = 1 << 20, .h = 4, .w = 4, .o = 1}), 1) << "one does not fit";
}

// ---- algorithms

TEST(ConvPlan, TakesFewChannelsOnOwnKernels) {
  const Case base{.n = 4, .c = 3, .h = 40, .w = 40};
  struct Expected {
    const char* what;
    Change change;
    std::int64_t algorithm;
  };
  const Expected rows[] = {
      {"f32", [](Case&) {}, conv_direct},
      {"TF32", [](Case& c) { c.tf32 = true; }, conv_mma},
      {"16 bits", [](Case& c) { c.dtype = DType::bf16; }, conv_mma},
      {"16 bits, and outputs that fill no 16 bytes", [](Case& c) { c.dtype = DType::bf16, c.o = 12; }, conv_direct},
      {"TF32, and outputs that do", [](Case& c) { c.tf32 = true, c.o = 12; }, conv_mma},
      {"no quads", [](Case& c) { c.o = 66; }, 0},
      {"f64", [](Case& c) { c.dtype = DType::f64; }, 0},
      {"a patch of 36, true f32", [](Case& c) { c.c = 4; }, conv_direct},
      {"a patch of 36, TF32", [](Case& c) { c.c = 4, c.tf32 = true; }, 0},
      {"a patch of 36, 16 bits", [](Case& c) { c.c = 4, c.dtype = DType::bf16; }, 0},
      {"a patch of 32, 16 bits", [](Case& c) { c.c = 4, c.kh = 2, c.kw = 4, c.dtype = DType::bf16; }, conv_direct},
      {"a patch of 31, TF32", [](Case& c) { c.c = 1, c.kh = 5, c.kw = 6, c.tf32 = true; }, conv_mma},
      {"the largest patch", [](Case& c) { c.c = 4, c.kh = c.kw = 7; }, conv_direct},
      {"five channels", [](Case& c) { c.c = 5; }, 0},
      {"no images", [](Case& c) { c.n = 0; }, 0},
      {"groups", [](Case& c) { c.c = 4, c.params.groups = 2; }, 0},
      {"y in another order", [](Case& c) { c.y.is_row_major = true; }, 0},
      {"x in another order", [](Case& c) { c.x.is_row_major = true; }, conv_direct},
      {"512 outputs", [](Case& c) { c.o = 512; }, conv_direct},
      {"more", [](Case& c) { c.o = 516; }, 0},
      {"a kernel that is high", [](Case& c) { c.kh = 8, c.kw = 2; }, 0},
      {"a kernel that is wide", [](Case& c) { c.kh = 2, c.kw = 8; }, 0},
      {"x of 2^31 elements", [](Case& c) { c.n = 1 << 23, c.c = 1, c.h = c.w = 16, c.o = 4, c.params.stride = 16; }, 0},
      {"y of 2^31 elements", [](Case& c) { c.n = 1 << 22, c.c = 1, c.h = c.w = 3, c.o = 512; }, 0},
      {"a step of 1023", [](Case& c) { c.params.stride = 1023; }, conv_direct},
      {"stride, h", [](Case& c) { c.params.stride = high(1024); }, 0},
      {"stride, w", [](Case& c) { c.params.stride = wide(1024); }, 0},
      {"padding, h", [](Case& c) { c.params.padding = high(1024, 0); }, 0},
      {"padding, w", [](Case& c) { c.params.padding = wide(1024, 0); }, 0},
      {"dilation, h", [](Case& c) { c.params.dilation = high(1024), c.h = 2100, c.c = 1; }, 0},
      {"dilation, w", [](Case& c) { c.params.dilation = wide(1024), c.w = 2100, c.c = 1; }, 0},
      {"no tile that fits, f32", [](Case& c) { c.params.dilation = 500, c.h = c.w = 1100; }, 0},
      {"no tile that fits, TF32", [](Case& c) { c.params.dilation = 500, c.h = c.w = 1100, c.tf32 = true; }, 0},
  };
  for (const Expected& r : rows) {
    SCOPED_TRACE(r.what);
    const Case c = changed(base, r.change);
    EXPECT_EQ(c.forward().algorithm, r.algorithm);
    EXPECT_EQ(c.weight_grad().algorithm, r.algorithm);
    EXPECT_EQ(c.input_grad().algorithm, 0) << "for which there is none";
    if (r.algorithm == 0) continue;
    EXPECT_EQ(c.forward().workspace, 0u);
    EXPECT_EQ(c.weight_grad().workspace, r.algorithm == conv_mma
                                             ? MmaConv(c.sizes(), ConvMap::weight_grad).sum_bytes()
                                             : DirectConv(c.sizes(), ConvMap::weight_grad).sum_bytes());
  }
}

// Full rows of an image where two of them fit; halves of them, and so on, where they do not; but a tile of a warp's
// width is narrow enough.
TEST(ConvTiles, AreAsWideAsFits) {
  const auto tile = [](std::int64_t w, std::int64_t kh, std::int64_t dilation_h, std::int64_t h = 600) {
    const Case c{.n = 64, .c = 4, .h = h, .w = w, .o = 4, .kh = kh, .kw = 1, .params = {.dilation = {dilation_h, 1}}};
    const DirectConv d(c.sizes(), ConvMap::forward);
    return std::pair(d.tile_w, d.tile_h > 0);
  };
  EXPECT_EQ(tile(100, 1, 1), std::pair(100, true));
  EXPECT_EQ(tile(128, 1, 1), std::pair(128, true)) << "the widest";
  EXPECT_EQ(tile(129, 1, 1), std::pair(65, true)) << "halves";
  // Of about 41 KiB a pixel of x takes 16 bytes: 2,600 pixels.
  EXPECT_EQ(tile(128, 2, 15), std::pair(128, true)) << "17 rows of 128 pixels: two of y";
  EXPECT_EQ(tile(128, 2, 30), std::pair(64, true)) << "32 rows of 64";
  EXPECT_EQ(tile(128, 2, 30, 31), std::pair(64, true)) << "one row is all";
  EXPECT_EQ(tile(128, 2, 40), std::pair(32, true)) << "41 rows of 64: one of y is too few";
  EXPECT_EQ(tile(128, 2, 82), std::pair(32, true)) << "83 rows of 32: one of y";
  EXPECT_EQ(tile(128, 2, 100), std::pair(16, true));
}

TEST(ConvTiles, ReachAsFarAsTheirStridesAndTaps) {
  for (const Conv2dParams& params : {Conv2dParams{.stride = {2, 1}},
                                     {.stride = {1, 2}},
                                     {.dilation = {2, 1}},
                                     {.stride = {3, 2}, .dilation = {1, 3}}}) {
    const Case c{.n = 512, .c = 4, .h = 40, .w = 40, .o = 4, .kh = 3, .kw = 2, .params = params};
    const DirectConv d(c.sizes(), ConvMap::forward);
    const auto reach = [&](int dim, std::int64_t tile, std::int64_t taps) {
      return (tile - 1) * params.stride[dim] + (taps - 1) * params.dilation[dim] + 1;
    };
    ASSERT_GT(d.tile_h, 1);
    ASSERT_GT(d.tile_w, 1);
    EXPECT_EQ(d.rows, reach(0, d.tile_h, c.kh));
    EXPECT_EQ(d.columns, reach(1, d.tile_w, c.kw));
  }
}

TEST(ConvPlan, TakesManyChannelsOnWarpgroupsOfWholeTiles) {
  const Case base{.params = {.padding = 1}, .tf32 = true};
  const auto algorithm = [&](const Change& change) { return changed(base, change).weight_grad().algorithm; };
  EXPECT_EQ(base.weight_grad().algorithm, conv_warpgroup);
  EXPECT_EQ(base.forward().algorithm, 0) << "for which there is none";
  EXPECT_EQ(algorithm([](Case& c) { c.c = 32; }), conv_warpgroup);
  const Row others[] = {
      {"true f32", [](Case& c) { c.tf32 = false; }},
      {"16 bits", [](Case& c) { c.dtype = DType::bf16; }},
      {"x of 16 bits", [](Case& c) { c.x.dtype = DType::bf16; }},
      {"a gradient of 16 bits", [](Case& c) { c.y.dtype = DType::bf16; }},
      {"the weight's of 16 bits", [](Case& c) { c.weight.dtype = DType::bf16; }},
      {"one for the bias", [](Case& c) { c.has_bias = true; }},
      {"a kernel that is high",
       [](Case& c) {
         c.kh = 5, c.params.padding = {2, 1};
       }},
      {"a kernel that is wide",
       [](Case& c) {
         c.kw = 5, c.params.padding = {1, 2};
       }},
      {"stride, h", [](Case& c) { c.params.stride = high(2); }},
      {"stride, w", [](Case& c) { c.params.stride = wide(2); }},
      {"dilation, h",
       [](Case& c) {
         c.params.dilation = high(2), c.params.padding = {2, 1};
       }},
      {"dilation, w",
       [](Case& c) {
         c.params.dilation = wide(2), c.params.padding = {1, 2};
       }},
      {"groups", [](Case& c) { c.c = 128, c.o = 128, c.params.groups = 2; }},
      {"too large", [](Case& c) { c.n = 1 << 20; }},
      {"channels that fill no block", [](Case& c) { c.c = 48; }},
      {"outputs that fill none", [](Case& c) { c.o = 96; }},
      {"few images", [](Case& c) { c.n = 7; }},
      {"rows that fill no tile", [](Case& c) { c.h = 6, c.n = 64; }},
      {"columns that fill none", [](Case& c) { c.w = 6, c.n = 64; }},
      {"x in another order", [](Case& c) { c.x.is_row_major = true; }},
      {"gy in another order", [](Case& c) { c.y.is_row_major = true; }},
      {"the weight in another order", [](Case& c) { c.weight.is_row_major = true; }},
      {"x at an odd address", [](Case& c) { c.x.at += 8; }},
      {"gy at one", [](Case& c) { c.y.at += 8; }},
      {"the weight at one", [](Case& c) { c.weight.at += 8; }},
      {"f64", [](Case& c) { c.dtype = DType::f64; }},
      {"two shares", [](Case& c) { c.c = c.o = c.n = 512; }},
      {"too few tiles for four shares", [](Case& c) { c.h = 4; }},
  };
  for (const Row& r : others) EXPECT_EQ(algorithm(r.change), 0) << r.what;
  EXPECT_EQ(algorithm([](Case& c) { c.h = 16, c.params.stride = high(2); }), 0) << "stride, h, of whole tiles";
  EXPECT_EQ(algorithm([](Case& c) { c.w = 16, c.params.stride = wide(2); }), 0) << "stride, w, of whole tiles";
  Conv2dWeightGradArgs relu{.x = base.image(), .gy = base.result(), .gw = base.kernel(), .params = base.params};
  relu.activation = Activation::relu;
  relu.y = relu.masked = base.result();
  const AllowTf32 allow(true);
  EXPECT_EQ(conv_plans().conv2d_weight_grad.plan(relu).algorithm, 0) << "an activation";
}

}  // namespace
}  // namespace bytetape::cuda
