#include <algorithm>

#include "bytetape/core/factories.h"
#include "bytetape/onnx/ops/pointwise.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

/// Returns input i, a weight or statistic, in x's dtype; a constant if it is undefined.
std::string coefficient(Conversion& c, std::size_t i, const Shape& shape, double value, DType dtype) {
  const std::string v = c.in_or_full(i, shape, value, dtype);
  return c.has(i) && c.dtype(i) != dtype ? c.cast(v, dtype) : v;
}

/// Returns a weight or bias (c) as (c, 1, ..., 1), which broadcasts to x.
std::string per_channel(Conversion& c, std::size_t i) {
  Sizes sizes(static_cast<std::size_t>(c.rank()) - 1, Size(1));
  sizes[0] = c.size(0, 1);
  return c.reshape(coefficient(c, i, {}, 0, c.dtype()), sizes);
}

/// Returns the batch norm of x with the statistics of the batch.
std::string by_batch(Conversion& c) {
  std::vector<std::int64_t> axes{0};
  for (std::int64_t d = 2; d < c.rank(); ++d) axes.push_back(d);
  const auto mean = [&](const std::string& x) { return c.graph.add("ReduceMean", {x}, {{"axes", axes}}); };
  const std::string centred = c.graph.add("Sub", {c.in(0), mean(c.in(0))}),
                    var = mean(c.graph.add("Mul", {centred, centred})),
                    shifted = c.graph.add("Add", {var, c.graph.number(c.number("eps"), c.dtype())});
  std::string y = c.graph.add("Div", {centred, c.graph.add("Sqrt", {shifted})});
  if (c.has(1)) y = c.graph.add("Mul", {y, per_channel(c, 1)});
  return c.has(2) ? c.graph.add("Add", {y, per_channel(c, 2)}) : y;
}

void batch_norm(Conversion& c) {
  if (c.outputs() > 1) c.refuse("it updates the running statistics, as in training");
  const Shape channels{c.size(0, 1)};
  const DType dtype = c.dtype();
  std::string y =
      c.flag("training")
          ? by_batch(c)
          : c.graph.add("BatchNormalization",
                        {c.in(0), coefficient(c, 1, channels, 1, dtype), coefficient(c, 2, channels, 0, dtype),
                         coefficient(c, 3, channels, 0, dtype), coefficient(c, 4, channels, 1, dtype)},
                        {{"epsilon", c.number("eps")}});
  if (c.has(5)) y = c.graph.add("Add", {y, c.in(5)});
  c.set_out(activated(c, y, c.text("activation"), dtype));
}

/// Returns the layer norm of x, with the weight and bias in inputs i and i + 1.
std::string normalised(Conversion& c, const std::string& x, std::size_t i, DType dtype) {
  const std::vector<std::int64_t> shape = c.integers("normalized_shape");
  return c.graph.add("LayerNormalization",
                     {x, coefficient(c, i, shape, 1, dtype), coefficient(c, i + 1, shape, 0, dtype)},
                     {{"axis", -static_cast<std::int64_t>(shape.size())}, {"epsilon", c.number("eps")}});
}

void layer_norm(Conversion& c) { c.set_out(normalised(c, c.in(0), 1, c.dtype())); }

void add_layer_norm(Conversion& c) {
  if (c.dtype(0) != c.dtype(1)) c.refuse("x and the residual have different dtypes");
  const std::string sum = c.graph.add("Add", {c.in(0), c.in(1)});
  c.set_out(normalised(c, sum, 2, c.dtype()), 0);
  c.set_out(sum, 1);
}

void rms_norm(Conversion& c) {
  std::vector<std::int64_t> axes;
  for (std::size_t n = c.integers("normalized_shape").size(); n > 0; --n) axes.push_back(-static_cast<std::int64_t>(n));
  const std::string mean = c.graph.add("ReduceMean", {c.graph.add("Mul", {c.in(0), c.in(0)})}, {{"axes", axes}}),
                    sum = c.graph.add("Add", {mean, c.graph.number(c.number("eps"), c.dtype())}),
                    y = c.graph.add("Div", {c.in(0), c.graph.add("Sqrt", {sum})});
  c.set_out(c.has(1) ? c.graph.add("Mul", {y, coefficient(c, 1, {}, 1, c.dtype())}) : y);
}

// A group is an instance of one channel.
void group_norm(Conversion& c) {
  const std::int64_t groups = c.integer("num_groups");
  const auto filled = [&](double v) { return c.graph.tensor(full({groups}, v, c.dtype(), Device::cpu())); };
  Size each = c.size(0, 1) / groups;
  for (std::size_t d = 2; d < c.shape().size(); ++d) each = each * c.shape()[d];
  const std::string x = c.reshape(c.in(0), {c.shape()[0], groups, each});
  std::string y = c.reshape(
      c.graph.add("InstanceNormalization", {x, filled(1), filled(0)}, {{"epsilon", c.number("eps")}}), c.out_shape());
  if (c.has(1)) y = c.graph.add("Mul", {y, per_channel(c, 1)});
  if (c.has(2)) y = c.graph.add("Add", {y, per_channel(c, 2)});
  c.set_out(y);
}

constexpr Converter converters[] = {
    {"add_layer_norm", add_layer_norm}, {"batch_norm", batch_norm}, {"group_norm", group_norm},
    {"layer_norm", layer_norm},         {"rms_norm", rms_norm},
};

}  // namespace

Converters norm_converters() { return converters; }

}  // namespace bytetape::onnx
