#include <cmath>
#include <limits>
#include <numeric>

#include "bytetape/autograd/ops/pad.h"
#include "bytetape/core/factories.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

/// Returns keys or values (b, g, m, d) with each head repeated for the `heads` / g heads of q that use it.
std::string for_each_head(Conversion& c, const std::string& x, const Sizes& shape, std::int64_t heads) {
  const std::int64_t own = shape[1].first, times = heads / own;
  if (times == 1) return x;
  const std::string apart = c.graph.add("Unsqueeze", {x, c.graph.integers({2})});
  const std::string repeated = c.graph.add("Expand", {apart, c.graph.sizes({1, 1, times, 1, 1})});
  return c.reshape(repeated, {shape[0], heads, shape[2], shape[3]});
}

/// Returns scale q k^T.
std::string scores_of(Conversion& c, const std::string& keys, double scale) {
  const std::string turned = c.graph.add("Transpose", {keys}, {{"perm", Integers{0, 1, 3, 2}}});
  return c.graph.add("MatMul", {c.graph.add("Mul", {c.in(0), c.graph.number(scale, c.dtype())}), turned});
}

std::string softmax(Conversion& c, const std::string& scores) {
  return c.graph.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
}

/// Returns the weights of attention to the keys where `is_allowed`. All are 0 if no key is allowed.
std::string masked_weights(Conversion& c, const std::string& scores, const std::string& is_allowed) {
  const std::string never = c.graph.number(-std::numeric_limits<double>::infinity(), c.dtype()),
                    weights = softmax(c, c.graph.add("Where", {is_allowed, scores, never}));
  return c.graph.add("Where", {is_allowed, weights, c.graph.number(0, c.dtype())});
}

void attention(Conversion& c) {
  if (c.number("dropout") > 0) c.refuse("it drops weights, as in training");
  const std::int64_t heads = c.size(0, 1);
  const std::string keys = for_each_head(c, c.in(1), c.shape(1), heads),
                    values = for_each_head(c, c.in(2), c.shape(2), heads);
  std::string scores = scores_of(c, keys, c.number("scale")), is_allowed;
  if (c.has(3) && c.dtype(3) == DType::boolean) {
    is_allowed = c.in(3);
  } else if (c.has(3)) {
    const std::string mask = c.dtype(3) == c.dtype() ? c.in(3) : c.cast(c.in(3), c.dtype());
    scores = c.graph.add("Add", {scores, mask});
    is_allowed = c.graph.add("Greater", {mask, c.graph.number(-std::numeric_limits<double>::infinity(), c.dtype())});
  }
  if (c.flag("causal")) {
    const Tensor earlier = tril(ones({c.size(0, 2), c.size(1, 2)}, DType::boolean, Device::cpu()));
    const std::string causal = c.graph.tensor(earlier);
    is_allowed = is_allowed.empty() ? causal : c.graph.add("And", {is_allowed, causal});
  }
  const std::string weights = is_allowed.empty() ? softmax(c, scores) : masked_weights(c, scores, is_allowed);
  c.set_out(c.graph.add("MatMul", {weights, values}));
}

/// Returns 0, 1, ..., n - 1 as a constant of the given shape.
std::string counting(Conversion& c, std::int64_t n, const Shape& shape) {
  Integers all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return c.graph.tensor(from_vector(all, shape, Device::cpu()));
}

/// Returns the place of each new token in its row of the cache, (n, 1, t, 1).
std::string new_places(Conversion& c) {
  const std::int64_t tokens = c.size(0, 2);
  const std::string first = c.graph.add("Unsqueeze", {c.in(5), c.graph.integers({1, 2, 3})}),
                    offsets = counting(c, tokens, {1, 1, tokens, 1});
  return c.graph.add("Add", {first, offsets});
}

/// Returns the cache in input `cache` with the new tokens of input `from` at their places.
std::string extended(Conversion& c, std::size_t cache, std::size_t from, const std::string& places) {
  const std::string everywhere = c.graph.add("Expand", {places, c.graph.sizes(c.shape(from))});
  return c.graph.add("ScatterElements", {c.in(cache), everywhere, c.in(from)}, {{"axis", std::int64_t{2}}});
}

// The results are y, and the caches that the op overwrites.
void cached_attention(Conversion& c) {
  const std::int64_t heads = c.size(0, 1), capacity = c.size(3, 2);
  const std::string places = new_places(c), keys = extended(c, 3, 1, places), values = extended(c, 4, 2, places);
  const std::string columns = counting(c, capacity, {1, 1, 1, capacity}),
                    is_earlier = c.graph.add("LessOrEqual", {columns, places});
  const double scale = 1 / std::sqrt(static_cast<double>(c.size(0, 3)));
  const std::string scores = scores_of(c, for_each_head(c, keys, c.shape(3), heads), scale),
                    weights = masked_weights(c, scores, is_earlier);
  c.set_out(c.graph.add("MatMul", {weights, for_each_head(c, values, c.shape(4), heads)}), 0);
  c.set_out(keys, 1);
  c.set_out(values, 2);
}

constexpr Converter converters[] = {
    {"cached_attention", cached_attention},
    {"scaled_dot_product_attention", attention},
};

}  // namespace

Converters attention_converters() { return converters; }

}  // namespace bytetape::onnx
