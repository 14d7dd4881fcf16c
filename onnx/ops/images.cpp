#include <algorithm>

#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/factories.h"
#include "bytetape/onnx/ops/pointwise.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

/// Returns an attribute for each dim of an image. conv1d has one dim, and so a plain integer.
Integers per_dim(const Conversion& c, const char* name) {
  if (c.rank() == 3) return {c.integer(name)};
  return c.integers(name);
}

/// Returns the padding of ONNX: all starts, then all ends.
Integers both_ends(const Integers& padding) {
  Integers both = padding;
  both.insert(both.end(), padding.begin(), padding.end());
  return both;
}

Names weighted(Conversion& c) {
  Names inputs{c.in(0), c.in(1)};
  if (c.has(2)) inputs.push_back(c.in(2));
  return inputs;
}

void conv(Conversion& c) {
  const std::string y = c.graph.add("Conv", weighted(c),
                                    {{"strides", per_dim(c, "stride")},
                                     {"pads", both_ends(per_dim(c, "padding"))},
                                     {"dilations", per_dim(c, "dilation")},
                                     {"group", c.integer("groups")}});
  c.set_out(activated(c, y, c.text("activation"), c.out_dtype()));
}

// Output padding of a stride or more acts as if zeros followed the input. onnxruntime takes less than a stride.
void conv_transpose2d(Conversion& c) {
  const Integers stride = c.integers("stride");
  Integers padding = c.integers("output_padding"), zeros(8, 0);
  for (std::size_t i = 0; i < 2; ++i) zeros[6 + i] = padding[i] / stride[i], padding[i] %= stride[i];
  Names inputs = weighted(c);
  if (zeros[6] + zeros[7] > 0) inputs[0] = c.graph.add("Pad", {inputs[0], c.graph.integers(zeros)});
  c.set_out(c.graph.add("ConvTranspose", inputs,
                        {{"strides", stride},
                         {"pads", both_ends(c.integers("padding"))},
                         {"output_padding", padding},
                         {"dilations", c.integers("dilation")},
                         {"group", c.integer("groups")}}));
}

Attributes windows(const Conversion& c) {
  Integers stride = c.integers("stride");
  for (std::size_t i = 0; i < 2; ++i)
    if (stride[i] == 0) stride[i] = c.integers("kernel")[i];
  return {{"kernel_shape", c.integers("kernel")}, {"strides", stride}, {"pads", both_ends(c.integers("padding"))}};
}

void max_pool2d(Conversion& c) {
  const std::string y = c.graph.add("MaxPool", {c.in()}, windows(c));
  c.set_out(activated(c, y, c.text("activation"), c.out_dtype()));
}

void avg_pool2d(Conversion& c) {
  Attributes attributes = windows(c);
  attributes.emplace_back("count_include_pad", static_cast<std::int64_t>(c.flag("count_include_pad")));
  c.set_out(c.graph.add("AveragePool", {c.in()}, attributes));
}

/// Returns the matrix (n, m) whose column i averages the inputs of output i of m.
Tensor averages(std::int64_t n, std::int64_t m, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(n * m), 0);
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t start = i * n / m, stop = ((i + 1) * n + m - 1) / m;
    for (std::int64_t k = start; k < stop; ++k)
      values[static_cast<std::size_t>(k * m + i)] = 1 / static_cast<double>(stop - start);
  }
  return to(from_vector(values, {n, m}, Device::cpu()), dtype);
}

// The windows of a size that is no multiple differ, so that case is a product with a matrix of averages for each dim.
void adaptive_avg_pool2d(Conversion& c) {
  const Integers size = c.integers("output_size");
  const std::int64_t h = c.size(0, 2), w = c.size(0, 3);
  if (h % size[0] == 0 && w % size[1] == 0) {
    const Integers window{h / size[0], w / size[1]};
    return c.set_out(c.graph.add("AveragePool", {c.in()}, {{"kernel_shape", window}, {"strides", window}}));
  }
  const auto turned = [&](const std::string& x) {
    return c.graph.add("Transpose", {x}, {{"perm", Integers{0, 1, 3, 2}}});
  };
  const std::string rows = c.graph.add("MatMul", {c.in(), c.graph.tensor(averages(w, size[1], c.dtype()))});
  c.set_out(turned(c.graph.add("MatMul", {turned(rows), c.graph.tensor(averages(h, size[0], c.dtype()))})));
}

void interpolate(Conversion& c) {
  const bool is_nearest = c.text("mode") == "nearest";
  Attributes attributes{{"mode", is_nearest ? "nearest" : "linear"}};
  if (is_nearest) {
    attributes.emplace_back("coordinate_transformation_mode", "asymmetric");
    attributes.emplace_back("nearest_mode", "floor");
  } else {
    attributes.emplace_back("coordinate_transformation_mode", c.flag("align_corners") ? "align_corners" : "half_pixel");
  }
  const std::vector<float> factors{1, 1, static_cast<float>(c.number("scale_factor_h")),
                                   static_cast<float>(c.number("scale_factor_w"))};
  if (factors[2] > 0)
    return c.set_out(
        c.graph.add("Resize", {c.in(), "", c.graph.tensor(from_vector(factors, {4}, Device::cpu()))}, attributes));
  c.set_out(c.graph.add("Resize", {c.in(), "", "", c.graph.sizes(c.out_shape())}, attributes));
}

constexpr Converter converters[] = {
    {"adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"avg_pool2d", avg_pool2d},
    {"conv1d", conv},
    {"conv2d", conv},
    {"conv_transpose2d", conv_transpose2d},
    {"interpolate", interpolate},
    {"max_pool2d", max_pool2d},
};

}  // namespace

Converters images_converters() { return converters; }

}  // namespace bytetape::onnx
