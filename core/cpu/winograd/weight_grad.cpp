// The gradient of a filter is a sum over tiles: of transformed inputs times transformed gradients of results, element
// by element. These are 36 products of matrices (results, tiles) and (tiles, channels). Their sums are transformed to
// taps.
#include <algorithm>

#include "bytetape/core/conv_sizes.h"
#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/slices.h"
#include "bytetape/core/cpu/winograd/conv.h"
#include "bytetape/core/cpu/winograd/images.h"

namespace bytetape::cpu::winograd {
namespace {

constexpr std::int64_t block = 4 * most_rows;  // rows of the sums that are made at once

/// Returns the number of blocks of rows and panels of columns that cover the sums.
std::int64_t blocks_of(const ConvSizes& s) { return ceil_div(s.o, block) * ceil_div(s.c, panel); }

/// The memory of a weight's gradient. If the transforms of all tiles take less memory than the sums, each thread has
/// the sums of a block, which it makes at once. Otherwise there are all sums, and products of a chunk of tiles are
/// added.
struct Scratch {
  bool is_whole;
  std::int64_t bias_parts;  // 0 without a bias
  float *zeros, *bias_sums;
  Products inputs, grads, sums;

  Scratch(const ConvSizes& s, const Tiles& tiles, bool with_bias, Parts& scratch)
      : is_whole(tiles.size() * (s.c + s.o) <= s.c * s.o),
        bias_parts(with_bias ? std::min<std::int64_t>(s.n * s.oh, 64) : 0),
        zeros(scratch.take<float>(std::max(s.c, s.o))),
        bias_sums(scratch.take<float>(bias_parts * s.o)),
        inputs(take_products(scratch, is_whole ? tiles.size() : chunk_of(s, tiles), s.c)),
        grads(take_products(scratch, inputs.rows, s.o)) {
    if (!is_whole) {
      sums = take_products(scratch, s.o, s.c);
      return;
    }
    sums = take_products(scratch, block, panel);
    for (std::int64_t i = 1; i < slices_of(blocks_of(s)); ++i) take_products(scratch, block, panel);
  }
  Products own_sums(std::int64_t slice) const {
    Products own = sums;
    own.data += slice * products * sums.size;
    return own;
  }

 private:
  /// The number of tiles whose transforms fit into a core's cache.
  static std::int64_t chunk_of(const ConvSizes& s, const Tiles& tiles) {
    constexpr std::int64_t floats = std::int64_t{1} << 19, least = 96;
    return std::min(std::max(floats / (products * (s.c + s.o)), least), tiles.size());
  }
};

/// Writes the gradients of the taps from channels `channel`.. to results `result`.., whose sums are given.
void write_taps(const Products& sums, std::int64_t result, std::int64_t channel, const View& gw) {
  const Strides& step = gw.strides;
  for (std::int64_t r = 0; r < sums.rows; ++r)
    for (std::int64_t c = 0; c < sums.cols; c += width) {
      V m[points][points], g[taps][taps];
      sums.load(m, r, c);
      transform<WeightGradTransform>(m, g);
      float* const to = gw.as<float>() + (result + r) * step[0] + (channel + c) * step[1];
      for (int i = 0; i < taps; ++i)
        for (int j = 0; j < taps; ++j) {
          float* const tap = to + i * step[2] + j * step[3];
          if (step[1] == 1)
            store(g[i][j], tap);
          else
            for (std::int64_t k = 0; k < width; ++k) tap[k * step[1]] = g[i][j][k];
        }
    }
}

/// Calls f(row, col, rows, cols, slice) for blocks that cover the sums, as share() does.
void for_each_block(const ConvSizes& s, const auto& f) {
  const std::int64_t panels = ceil_div(s.c, panel);
  share(blocks_of(s), [&](std::int64_t i, std::int64_t slice) {
    const std::int64_t row = i / panels * block, col = i % panels * panel;
    f(row, col, std::min(block, s.o - row), std::min(panel, s.c - col), slice);
  });
}

/// Makes the gradient of the filters from the transforms of all tiles.
void make_whole(const ConvSizes& sizes, const Scratch& s, const View& gw) {
  for_each_block(sizes, [&](auto row, auto col, auto rows, auto cols, auto slice) {
    const Products grads = s.grads.block(0, row, s.grads.rows, rows),
                   inputs = s.inputs.block(0, col, s.inputs.rows, cols),
                   sums = s.own_sums(slice).block(0, 0, rows, cols);
    for (int p = 0; p < products; ++p) multiply_into(true, grads[p].transposed(), inputs[p], sums[p]);
    write_taps(sums, row, col, gw);
  });
}

/// Adds the products of the first `size` transforms to all sums, or sets them.
void add_chunk(const ConvSizes& sizes, const Scratch& s, std::int64_t size, bool first) {
  const std::int64_t panels = ceil_div(sizes.c, panel), blocks = ceil_div(sizes.o, block);
  share(products * panels * blocks, [&](std::int64_t i, std::int64_t) {
    const std::int64_t col = i % panels * panel, cols = std::min(panel, sizes.c - col),
                       row = i / panels % blocks * block, rows = std::min(block, sizes.o - row);
    const auto p = static_cast<int>(i / (panels * blocks));
    multiply_into(first, s.grads.block(0, row, size, rows)[p].transposed(), s.inputs.block(0, col, size, cols)[p],
                  s.sums.block(row, col, rows, cols)[p]);
  });
}

/// Sums the gradient of a bias over pixels: over those of each part of all rows first, and then over parts.
void bias_grad(const Images<const float>& gy, const Scratch& s, float* to) {
  const std::int64_t rows = gy.n * gy.h, parts = s.bias_parts;
  share(parts, [&](std::int64_t i, std::int64_t) {
    float* const sum = s.bias_sums + i * gy.channels;
    std::fill_n(sum, gy.channels, 0.0F);
    for (std::int64_t k = rows * i / parts * gy.w; k < rows * (i + 1) / parts * gy.w; ++k) {
      const float* const pixel = gy.data + k * gy.channels;
      for (std::int64_t c = 0; c < gy.channels; ++c) sum[c] += pixel[c];
    }
  });
  std::copy_n(s.bias_sums, gy.channels, to);
  for (std::int64_t i = 1; i < parts; ++i)
    for (std::int64_t c = 0; c < gy.channels; ++c) to[c] += s.bias_sums[i * gy.channels + c];
}

}  // namespace

bool suits(const Conv2dWeightGradArgs& a) {
  constexpr std::int64_t fewest = 12;
  const std::int64_t c = a.x.shape[1], o = a.gy.shape[1];
  return suits(a.x, a.gw, gy_in_kernel(a), a.params) && c * o >= fewest * (c + o);
}

Plan plan_weight_grad(const Conv2dWeightGradArgs& a) {
  const ConvSizes s(a);
  Parts parts(nullptr);
  const Scratch unused(s, Tiles(s.n, s.oh, s.ow), a.gb.defined(), parts);
  return {.workspace = parts.bytes(), .algorithm = algorithm};
}

void weight_grad(const Conv2dWeightGradArgs& args, void* workspace) {
  const Conv2dWeightGradArgs a = through_activation(args);
  const ConvSizes sizes(a);
  const Images<const float> x = images(a.x), gy = images(a.gy);
  const Tiles tiles(sizes.n, sizes.oh, sizes.ow);
  Parts parts(workspace);
  const Scratch s(sizes, tiles, a.gb.defined(), parts);
  std::fill_n(s.zeros, std::max(sizes.c, sizes.o), 0.0F);
  for (std::int64_t start = 0; start < tiles.size(); start += s.inputs.rows) {
    const std::int64_t size = std::min(s.inputs.rows, tiles.size() - start);
    parallel_for(size, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t n = end - begin;
      transform_squares<InputTransform>(x, tiles, start + begin, n, a.params.padding, s.zeros,
                                        s.inputs.block(begin, 0, n, sizes.c));
      transform_squares<ResultGradTransform>(gy, tiles, start + begin, n, 0, s.zeros,
                                             s.grads.block(begin, 0, n, sizes.o));
    });
    if (!s.is_whole) add_chunk(sizes, s, size, start == 0);
  }
  if (s.is_whole)
    make_whole(sizes, s, a.gw);
  else
    for_each_block(sizes, [&](auto row, auto col, auto rows, auto cols, auto) {
      write_taps(s.sums.block(row, col, rows, cols), row, col, a.gw);
    });
  if (a.gb.defined()) bias_grad(gy, s, a.gb.as<float>());
}

}  // namespace bytetape::cpu::winograd
