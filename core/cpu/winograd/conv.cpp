// For each tile of 4x4 results, 6x6 inputs are transformed, multiplied element by element with the transformed filters,
// and summed over channels. These are 36 products of matrices (tiles, channels) and (channels, results). Their sums are
// transformed to results.
#include "bytetape/core/cpu/winograd/conv.h"

#include <algorithm>

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/slices.h"
#include "bytetape/core/cpu/winograd/filters.h"
#include "bytetape/core/cpu/winograd/split.h"

namespace bytetape::cpu::winograd {
namespace {

/// A convolution of x with filters. The gradient of an image is one too.
struct Convolution {
  Images<const float> x;
  Filters filters;
  const float* bias;  // may be null
  Images<float> y;
  Size2 padding;

  explicit Convolution(const Conv2dArgs& a)
      : x(images(a.x)),
        filters(Filters::forward(a.weight)),
        bias(a.bias.defined() ? a.bias.as<float>() : nullptr),
        y(images(a.y)),
        padding(a.params.padding) {}
  explicit Convolution(const Conv2dInputGradArgs& a)
      : x(images(a.gy)),
        filters(Filters::backward(a.weight)),
        bias(nullptr),
        y(images(a.gx)),
        padding(taps - 1 - a.params.padding.h, taps - 1 - a.params.padding.w) {}
};

/// The memory of one thread.
struct Own {
  Products inputs, sums, filters;  // of a block of tiles, and of a panel of results

  Own(const Convolution& c, const Split& split, Parts& scratch)
      : inputs(take_products(scratch, split.block, c.x.channels)), sums(take_products(scratch, split.block, panel)) {
    if (!split.keeps_filters) filters = take_products(scratch, Split::depth, panel);
  }
};

/// Runs a convolution.
class Run {
 public:
  Run(const Convolution& c, Parts& scratch)
      : c_(c),
        tiles_(c.y.n, c.y.h, c.y.w),
        split_(tiles_.size(), c.x.channels, c.y.channels),
        zeros_(scratch.take<float>(c.x.channels)) {
    if (split_.keeps_filters) filters_ = take_products(scratch, c.x.channels, c.y.channels);
  }
  const Split& split() const { return split_; }

  void prepare() const {
    std::fill_n(zeros_, c_.x.channels, 0.0F);
    if (!split_.keeps_filters) return;
    constexpr std::int64_t n = channel_multiple;
    share(c_.y.channels / n, [&](std::int64_t i, std::int64_t) {
      c_.filters.transform_block(0, n * i, filters_.block(0, n * i, filters_.rows, n));
    });
  }

  /// Makes part `part` of the results.
  void make_part(std::int64_t part, const Own& own) const {
    const std::int64_t first = part / split_.groups * split_.block,
                       size = std::min(split_.block, tiles_.size() - first), panels = ceil_div(c_.y.channels, panel),
                       group = part % split_.groups;
    transform_squares<InputTransform>(c_.x, tiles_, first, size, c_.padding, zeros_, own.inputs);
    for (std::int64_t p = panels * group / split_.groups; p < panels * (group + 1) / split_.groups; ++p) {
      const std::int64_t channel = p * panel;
      const Products sums = own.sums.block(0, 0, size, std::min(panel, c_.y.channels - channel));
      make_sums(own, channel, sums);
      for (std::int64_t t = 0; t < size; ++t) write_results(tiles_[first + t], sums, t, channel);
    }
  }

 private:
  /// Makes the sums of results from channel `channel` on.
  void make_sums(const Own& own, std::int64_t channel, const Products& sums) const {
    for (std::int64_t k = 0; k < c_.x.channels; k += depth) {
      const std::int64_t n = std::min(depth, c_.x.channels - k);
      Products filters;
      if (split_.keeps_filters) {
        filters = filters_.block(k, channel, n, sums.cols);
      } else {
        filters = own.filters.block(0, 0, n, sums.cols);
        c_.filters.transform_block(k, channel, filters);
      }
      add_products(own.inputs.block(0, k, sums.rows, n), filters, sums, k == 0);
    }
  }

  static void add_products(const Products& inputs, const Products& filters, const Products& sums, bool first) {
    for (int p = 0; p < products; ++p) multiply_into(first, inputs[p], filters[p], sums[p]);
  }

  /// Writes the results of a tile from a row of the sums, whose first column is channel `channel`.
  void write_results(const Tiles::Place& at, const Products& sums, std::int64_t row, std::int64_t channel) const {
    const std::int64_t rows = std::min<std::int64_t>(results, c_.y.h - at.row),
                       cols = std::min<std::int64_t>(results, c_.y.w - at.col);
    for (std::int64_t k = 0; k < sums.cols; k += width) {
      V m[points][points], y[results][results];
      sums.load(m, row, k);
      transform<ResultTransform>(m, y);
      const V bias = c_.bias ? load(c_.bias + channel + k) : V{};
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j)
          store(y[i][j] + bias, c_.y.pixel(at.image, at.row + i, at.col + j) + channel + k);
    }
  }

  static constexpr std::int64_t depth = Split::depth;
  const Convolution& c_;
  Tiles tiles_;
  Split split_;
  float* zeros_;
  Products filters_;  // all, if they are kept
};

Plan plan(const Convolution& c) {
  Parts shared(nullptr), own(nullptr);
  const Run run(c, shared);
  const Own unused(c, run.split(), own);
  return {.workspace = shared.bytes() + own.bytes() * static_cast<std::size_t>(slices_of(run.split().parts())),
          .algorithm = algorithm};
}

void run(const Convolution& c, void* workspace) {
  Parts shared(workspace), measure(nullptr);
  const Run run(c, shared);
  const Own unused(c, run.split(), measure);
  run.prepare();
  share(run.split().parts(), [&](std::int64_t part, std::int64_t slice) {
    Parts own(static_cast<char*>(workspace) + shared.bytes() + static_cast<std::size_t>(slice) * measure.bytes());
    run.make_part(part, Own(c, run.split(), own));
  });
}

}  // namespace

bool suits(const ConstView& x, const ConstView& weight, const ConstView& y, const Conv2dParams& p) {
  const auto is_image = [](const ConstView& v) {
    return v.numel() > 0 && v.shape[1] % channel_multiple == 0 && is_channels_last(v.shape, v.strides);
  };
  constexpr std::int64_t fewest = 8;  // tiles, for which filters are transformed
  const std::int64_t tiles = Tiles(y.shape[0], y.shape[2], y.shape[3]).size();
  return x.dtype == DType::f32 && weight.shape[2] == taps && weight.shape[3] == taps && p.groups == 1 &&
         p.stride == Size2(1) && p.dilation == Size2(1) && p.padding.h < taps && p.padding.w < taps && is_image(x) &&
         is_image(y) && tiles >= fewest && tiles * results * results <= 2 * y.shape[0] * y.shape[2] * y.shape[3];
}

Plan plan_conv2d(const Conv2dArgs& a) { return plan(Convolution(a)); }
void conv2d(const Conv2dArgs& a, void* workspace) {
  run(Convolution(a), workspace);
  activate(a.activation, a.y);
}
Plan plan_input_grad(const Conv2dInputGradArgs& a) { return plan(Convolution(a)); }
void input_grad(const Conv2dInputGradArgs& a, void* workspace) { run(Convolution(a), workspace); }

}  // namespace bytetape::cpu::winograd
