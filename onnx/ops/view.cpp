#include <algorithm>
#include <limits>
#include <numeric>

#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

constexpr std::int64_t whole = std::numeric_limits<std::int64_t>::max();

void reshape(Conversion& c) { c.set_out(c.reshape(c.in(), c.out_shape())); }

/// Returns input i with the op's two dims swapped.
std::string swapped(Conversion& c, std::size_t i) {
  std::vector<std::int64_t> perm(static_cast<std::size_t>(c.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  if (!perm.empty())
    std::swap(perm[static_cast<std::size_t>(c.dim("dim0", c.rank()))],
              perm[static_cast<std::size_t>(c.dim("dim1", c.rank()))]);
  return c.graph.add("Transpose", {c.in(i)}, {{"perm", perm}});
}
void transpose(Conversion& c) { c.set_out(swapped(c, 0)); }

std::vector<std::int64_t> permutation(const Conversion& c) {
  std::vector<std::int64_t> perm = c.integers("dims");
  for (std::int64_t& d : perm)
    if (d < 0) d += static_cast<std::int64_t>(perm.size());
  return perm;
}

void permute(Conversion& c) { c.set_out(c.graph.add("Transpose", {c.in()}, {{"perm", permutation(c)}})); }

/// Returns the elements from start to stop of a dim of x. A stop at the end of the dim is a constant.
std::string part(Conversion& c, const std::string& x, std::int64_t dim, Size start, Size stop, Size size,
                 std::int64_t step = 1) {
  const std::string end = stop == size ? c.graph.integers({whole}) : c.graph.sizes({stop});
  return c.graph.add("Slice", {x, c.graph.sizes({start}), end, c.graph.integers({dim}), c.graph.integers({step})});
}

/// A range of a dim, in both traces.
struct Range {
  std::int64_t dim;
  Size start, stop, size;
  std::int64_t step = 1;
};
std::int64_t bound(std::int64_t i, std::int64_t size) {
  return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
}
Size bound(Size i, Size size) { return {bound(i.first, size.first), bound(i.second, size.second)}; }

Range narrow_range(const Conversion& c, const Sizes& shape) {
  const std::int64_t dim = c.dim("dim", static_cast<std::int64_t>(shape.size()));
  const Size size = shape[static_cast<std::size_t>(dim)], start = bound(c.size("start"), size);
  return {dim, start, start + c.size("length"), size};
}

Range slice_range(const Conversion& c, const Sizes& shape) {
  const std::int64_t dim = c.dim("dim", static_cast<std::int64_t>(shape.size()));
  const Size size = shape[static_cast<std::size_t>(dim)], start = bound(c.size("start"), size),
             stop = bound(c.size("stop"), size);
  return {
      dim, start, {std::max(start.first, stop.first), std::max(start.second, stop.second)}, size, c.integer("step")};
}

Range select_range(const Conversion& c, const Sizes& shape) {
  const std::int64_t dim = c.dim("dim", static_cast<std::int64_t>(shape.size()));
  const Size size = shape[static_cast<std::size_t>(dim)], start = bound(c.size("index"), size);
  return {dim, start, start + 1, size};
}

void take(Conversion& c, const Range& r) { c.set_out(part(c, c.in(), r.dim, r.start, r.stop, r.size, r.step)); }
void narrow(Conversion& c) { take(c, narrow_range(c, c.shape())); }
void slice(Conversion& c) { take(c, slice_range(c, c.shape())); }

void select(Conversion& c) {
  const Range r = select_range(c, c.shape());
  if (!r.start.is_fixed()) c.refuse("'index' depends on the batch size");
  c.set_out(c.graph.add("Gather", {c.in(), c.graph.number(r.start.first, DType::i64)}, {{"axis", r.dim}}));
}

void expand(Conversion& c) { c.set_out(c.graph.add("Expand", {c.in(), c.graph.sizes(c.out_shape())})); }

// ---- the inverse of views, for ops in place on a view. Input 0 is the base, and input 1 the view's new value.

/// Returns `base` with `values` in a range of it that has a step.
std::string put_with_step(Conversion& c, const std::string& values, const Range& r) {
  const std::string all =
      c.graph.add("Range", {c.scalar(r.start), c.scalar(r.stop), c.graph.number(r.step, DType::i64)});
  Sizes along(static_cast<std::size_t>(c.rank()), Size(1));
  along[static_cast<std::size_t>(r.dim)] = -1;
  const std::string index =
      c.graph.add("Expand", {c.graph.add("Reshape", {all, c.graph.sizes(along)}), c.graph.sizes(c.shape(1))});
  return c.graph.add("ScatterElements", {c.in(0), index, values}, {{"axis", r.dim}});
}

/// Returns `base` with `values` in a range of it.
std::string put(Conversion& c, const std::string& values, const Range& r) {
  if (r.step != 1) return put_with_step(c, values, r);
  Names parts;
  if (r.start != Size(0)) parts.push_back(part(c, c.in(0), r.dim, 0, r.start, r.size));
  parts.push_back(values);
  if (r.stop != r.size) parts.push_back(part(c, c.in(0), r.dim, r.stop, r.size, r.size));
  return parts.size() == 1 ? values : c.graph.add("Concat", parts, {{"axis", r.dim}});
}

}  // namespace

void put_into_base(Conversion& c, std::string_view view) {
  if (view == "transpose") return c.set_out(swapped(c, 1));
  if (view == "permute") {
    const std::vector<std::int64_t> perm = permutation(c);
    std::vector<std::int64_t> inverse(perm.size());
    for (std::size_t i = 0; i < perm.size(); ++i)
      inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
    return c.set_out(c.graph.add("Transpose", {c.in(1)}, {{"perm", inverse}}));
  }
  if (view == "narrow") return c.set_out(put(c, c.in(1), narrow_range(c, c.shape(0))));
  if (view == "slice") return c.set_out(put(c, c.in(1), slice_range(c, c.shape(0))));
  if (view == "select") {
    const Range r = select_range(c, c.shape(0));
    return c.set_out(put(c, c.graph.add("Unsqueeze", {c.in(1), c.graph.integers({r.dim})}), r));
  }
  if (view == "expand") c.refuse("an op in place writes to an expanded tensor");
  c.set_out(c.reshape(c.in(1), c.out_shape()));
}

static constexpr Converter converters[] = {
    {"expand", expand},       {"flatten", reshape},   {"narrow", narrow}, {"permute", permute},
    {"reshape", reshape},     {"select", select},     {"slice", slice},   {"squeeze", reshape},
    {"transpose", transpose}, {"unsqueeze", reshape}, {"view", reshape},
};

Converters view_converters() { return converters; }

}  // namespace bytetape::onnx
