// Convolutions of few channels: by which kernels they are made, and on tensor cores with many tiles, odd sizes, and
// infinities. And those of many, on views that no vector can be read from.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/bytetape.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/cuda/conv/conv_mma.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Problem {
  Shape x, weight;
  Conv2dParams params;
};
const Problem problems[] = {
    {{200, 3, 32, 32}, {64, 3, 3, 3}, {.padding = 1}},
    {{37, 1, 28, 28}, {32, 1, 3, 3}, {}},
    {{300, 3, 9, 11}, {72, 3, 3, 3}, {.stride = 2, .padding = 1}},
    {{3, 4, 7, 300}, {8, 4, 1, 5}, {.padding = {0, 1}}},
    {{2, 3, 40, 150}, {136, 3, 2, 5}, {.stride = {1, 2}, .padding = {0, 4}, .dilation = {3, 1}}},
    {{1, 2, 3, 3}, {8, 2, 3, 3}, {}},
};

Shape shape_of_y(const Problem& p) {
  const Device meta = Device::meta(Device::cuda());
  return conv2d(empty(p.x, DType::f32, meta), empty(p.weight, DType::f32, meta), {}, p.params).shape();
}

ConvSizes sizes_of(const Problem& p, DType dtype, const Shape& y) {
  const auto view = [&](const Shape& s) { return View(nullptr, dtype, Device::cuda(), s, channels_last_strides(s)); };
  return ConvSizes(view(p.x), view(p.weight), view(y), p.params);
}

// Needs no GPU.
TEST(MmaConv, TilesCoverEachImageOnce) {
  for (const Problem& p : problems)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const auto map : {cuda::ConvMap::forward, cuda::ConvMap::weight_grad}) {
        SCOPED_TRACE(detail::concat(dtype, p.x, p.weight));
        const cuda::MmaConv d(sizes_of(p, dtype, shape_of_y(p)), map);
        ASSERT_GT(d.tile_h, 0);
        EXPECT_TRUE(d.down * d.tile_h >= d.oh && (d.down - 1) * d.tile_h < d.oh);
        EXPECT_TRUE(d.across * d.tile_w >= d.ow && (d.across - 1) * d.tile_w < d.ow);
        EXPECT_EQ(d.tiles, p.x[0] * d.down * d.across);
        EXPECT_LE(d.tile_h * d.tile_w, cuda::ConvTiles::most_pixels);
        EXPECT_LE(d.blocks, d.tiles);
        EXPECT_LE(d.shared, cuda::ConvTiles::most_shared);
        EXPECT_GT(d.padded, d.patch());
      }
}

struct Precision {
  DType dtype;
  double relative;  // of the largest value
};
class CudaConv : public GpuTest, public testing::WithParamInterface<Precision> {
 protected:
  const AllowTf32 allow{true};
};

testing::AssertionResult close(const Tensor& actual, const Tensor& expected, double relative) {
  double largest = 1;
  for (const double v : expected.to_vector<double>()) largest = std::max(largest, std::abs(v));
  return all_close(actual, expected, 0, relative * largest);
}

/// Ones and zeros of dtype f64 on the CPU, where y is positive.
Tensor mask_of(const Tensor& y) { return to(to(y.detach() > 0, Device::cpu()), DType::f64); }
Tensor in_f64(const Tensor& x) { return to(to(x.detach(), Device::cpu()), DType::f64); }

TEST_P(CudaConv, AgreesWithTheCpuAndRepeats) {
  const auto [dtype, relative] = GetParam();
  for (const Problem& p : problems)
    for (const Activation activation : {Activation::none, Activation::relu})
      for (const bool is_aligned : {true, false}) {
        SCOPED_TRACE(detail::concat(p.x, p.weight, activation == Activation::relu ? " relu" : "",
                                    is_aligned ? "" : " with an odd gradient"));
        const Tensor x = channels_last(to(random_tensor(p.x, dtype), gpu));
        const Tensor w = channels_last(to(random_tensor(p.weight, dtype), gpu)).set_requires_grad();
        const Tensor b = to(random_tensor(p.weight[0], dtype), gpu).set_requires_grad();
        const Tensor y = conv2d(x, w, b, p.params, activation);
        const Shape s = y.shape();
        const std::int64_t odd = is_aligned ? 0 : 1;
        const Tensor values = to(random_tensor(y.numel() + odd, dtype), gpu);
        const Tensor gy = permute(view(narrow(values, 0, odd, y.numel()), {s[0], s[2], s[3], s[1]}), {0, 3, 1, 2});
        const auto gradients = [&] { return grad({y}, {w, b}, {.seeds = {gy}, .retain_graph = true}); };
        const std::vector<Tensor> got = gradients(), again = gradients();

        const Tensor w64 = in_f64(w).set_requires_grad(), b64 = in_f64(b).set_requires_grad();
        const Tensor y64 = conv2d(in_f64(x), w64, b64, p.params);
        const Tensor seed = activation == Activation::relu ? in_f64(gy) * mask_of(y) : in_f64(gy);
        const std::vector<Tensor> expected = grad({y64}, {w64, b64}, {.seeds = {seed}});
        const NoGrad no_grad;
        EXPECT_TRUE(close(in_f64(y), activation == Activation::relu ? relu(y64) : y64, relative));
        EXPECT_EQ(conv2d(x, w, b, p.params, activation).to_vector<double>(), y.to_vector<double>());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(close(in_f64(got[i]), expected[i], relative)) << "gradient " << i;
          EXPECT_EQ(again[i].to_vector<double>(), got[i].to_vector<double>()) << "gradient " << i;
        }
      }
}

// Zeros that fill up products would make NaN of it.
TEST_P(CudaConv, KeepsAnInfinityWhereItIs) {
  for (const Problem& p : problems) {
    SCOPED_TRACE(detail::concat(p.x, p.weight));
    Tensor x = random_tensor(p.x, GetParam().dtype);
    select(select(select(select(x, 0, 0), 0, 0), 0, 1), 0, 2) += std::numeric_limits<double>::infinity();
    const auto finite = [&](Device device) {
      const Tensor x_there = channels_last(to(device == gpu ? x : in_f64(x), device));
      const Tensor w = channels_last(ones(p.weight, x_there.dtype(), device)).set_requires_grad();
      const Tensor y = conv2d(x_there, w, {}, p.params);
      const Tensor gw = grad({y}, {w}, {.seeds = {ones(y.shape(), y.dtype(), device)}})[0];
      std::vector<bool> are;
      for (const Tensor& t : {y, gw})
        for (const double v : t.to_vector<double>()) are.push_back(std::isfinite(v));
      return are;
    };
    EXPECT_EQ(finite(gpu), finite(Device::cpu()));
  }
}

/// A copy on the GPU, `first` elements into its memory, with x's dims in the order in which they lie by `strides`.
Tensor moved(const Tensor& x, const Strides& strides, std::int64_t first) {
  const Tensor there = empty({first + x.numel()}, x.dtype(), gpu).alias(x.shape(), strides, first);
  copy_across(x, there);
  return there;
}
Tensor moved_image(const Tensor& x, std::int64_t first) { return moved(x, channels_last_strides(x.shape()), first); }

/// The result of a convolution and its gradients, of views that begin `first` elements into their memory.
struct OnViews {
  Tensor x, weight, bias, gy;  // on the CPU
  Conv2dParams params;
  Activation activation = Activation::none;

  std::vector<std::vector<double>> run(std::int64_t first, bool turns_weight) const {
    const Tensor image = moved_image(x, first).set_requires_grad();
    const Strides order = turns_weight ? contiguous_strides(weight.shape()) : channels_last_strides(weight.shape());
    std::vector<Tensor> inputs{image, moved(weight, order, first).set_requires_grad()};
    if (bias.defined()) inputs.push_back(moved(bias, {1}, first).set_requires_grad());
    const Tensor y = conv2d(image, inputs[1], bias.defined() ? inputs[2] : Tensor(), params, activation);
    std::vector<std::vector<double>> all{y.to_vector<double>()};
    for (const Tensor& g : grad({y}, inputs, {.seeds = {moved_image(gy, first)}})) all.push_back(g.to_vector<double>());
    return all;
  }
};

OnViews on_views(const Shape& x, const Shape& weight, const Conv2dParams& params, bool with_bias, DType dtype) {
  const Shape y =
      conv2d(empty(x, DType::f32, Device::meta(gpu)), empty(weight, DType::f32, Device::meta(gpu)), {}, params).shape();
  return {random_tensor(x, dtype), random_tensor(weight, dtype), with_bias ? random_tensor(weight[0], dtype) : Tensor(),
          random_tensor(y, dtype), params};
}

class CudaConvOnViews : public GpuTest {};

// The last engine that computes in true f32 reads channels-last images in vectors, whatever it was told of addresses.
TEST_F(CudaConvOnViews, TakeTrueF32OneElementIntoItsMemory) {
  const OnViews conv = on_views({3, 64, 17, 17}, {24, 64, 3, 3}, {.padding = 1}, true, DType::f32);
  for (const bool turns_weight : {true, false}) EXPECT_EQ(conv.run(1, turns_weight), conv.run(0, turns_weight));
}

TEST_F(CudaConvOnViews, GiveTheBitsOfAlignedTensors) {
  struct {
    Shape x, weight;
    Conv2dParams params;
  } const shapes[] = {
      {{3, 64, 17, 17}, {24, 64, 3, 3}, {.padding = 1}},
      {{4, 64, 16, 16}, {64, 64, 3, 3}, {.stride = 2, .padding = 1}},
      {{2, 32, 9, 11}, {48, 32, 1, 1}, {}},
      {{2, 32, 9, 11}, {32, 8, 3, 3}, {.padding = 1, .groups = 4}},
      {{5, 10, 8, 8}, {14, 10, 3, 3}, {.padding = {0, 1}}},
  };
  struct {
    DType dtype;
    bool tf32;
  } const precisions[] = {{DType::f32, false}, {DType::f32, true}, {DType::bf16, false}, {DType::f16, false}};
  for (const auto& [dtype, tf32] : precisions) {
    const AllowTf32 allow(tf32);
    for (const auto& s : shapes)
      for (const bool with_bias : {false, true})
        for (const Activation activation : {Activation::none, Activation::relu})
          for (const bool turns_weight : {true, false}) {
            SCOPED_TRACE(detail::concat(dtype, tf32 ? " as TF32 " : " ", s.x, s.weight, with_bias ? " bias" : "",
                                        activation == Activation::relu ? " relu" : "",
                                        turns_weight ? "" : " weight channels-last"));
            OnViews conv = on_views(s.x, s.weight, s.params, with_bias, dtype);
            conv.activation = activation;
            const auto expected = conv.run(0, turns_weight);
            for (const std::int64_t first : {1, 2, 3}) ASSERT_EQ(conv.run(first, turns_weight), expected) << first;
          }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaConv,
                         testing::Values(Precision{DType::bf16, 4e-3}, Precision{DType::f16, 1e-3},
                                         Precision{DType::f32, 1e-3}),
                         [](const auto& info) { return to_string(info.param.dtype); });

}  // namespace
}  // namespace bytetape::test
