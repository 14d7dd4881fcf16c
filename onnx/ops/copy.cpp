#include <algorithm>
#include <limits>

#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

/// Converts an op that leaves values as they are, such as a change of memory format.
void identity(Conversion& c) { c.set_out(c.in()); }

void to(Conversion& c) { c.set_out(c.dtype() == c.out_dtype() ? c.in() : c.cast(c.in(), c.out_dtype())); }

void copy_(Conversion& c) {
  const std::string b = c.dtype(1) == c.dtype(0) ? c.in(1) : c.cast(c.in(1), c.dtype(0));
  c.set_out(c.shape(1) == c.shape(0) ? b : c.graph.add("Expand", {b, c.graph.sizes(c.shape(0))}));
}

void fill_(Conversion& c) {
  c.set_out(c.graph.add("Expand", {c.graph.number(c.number("value"), c.dtype()), c.graph.sizes(c.shape())}));
}

void dropout(Conversion& c) {
  if (c.flag("training") && c.number("p") > 0) c.refuse("it drops elements, as in training");
  c.set_out(c.in());
}

void cat(Conversion& c) {
  Names tensors;
  for (std::size_t i = 0; i < c.inputs(); ++i)
    tensors.push_back(c.dtype(i) == c.out_dtype() ? c.in(i) : c.cast(c.in(i), c.out_dtype()));
  c.set_out(c.graph.add("Concat", tensors, {{"axis", c.integer("dim")}}));
}

void stack(Conversion& c) {
  const std::int64_t dim = c.dim("dim", c.rank() + 1);
  Names tensors;
  for (std::size_t i = 0; i < c.inputs(); ++i)
    tensors.push_back(c.graph.add("Unsqueeze", {c.in(i), c.graph.integers({dim})}));
  c.set_out(c.graph.add("Concat", tensors, {{"axis", dim}}));
}

void flip(Conversion& c) {
  std::vector<std::int64_t> dims = c.integers("dims");
  if (dims.empty() || c.rank() == 0) return c.set_out(c.in());
  constexpr std::int64_t before_first = std::numeric_limits<std::int64_t>::min() + 1;
  const auto all = [&](std::int64_t v) { return c.graph.integers(std::vector<std::int64_t>(dims.size(), v)); };
  c.set_out(c.graph.add("Slice", {c.in(), all(-1), all(before_first), c.graph.integers(dims), all(-1)}));
}

/// Moves the elements of x by `shift` places along a dim of `size` elements.
std::string rolled(Conversion& c, const std::string& x, std::int64_t dim, std::int64_t size, std::int64_t shift) {
  const std::int64_t places = size == 0 ? 0 : (shift % size + size) % size;
  if (places == 0) return x;
  const auto part = [&](std::int64_t start, std::int64_t stop) {
    return c.graph.add("Slice", {x, c.graph.integers({start}), c.graph.integers({stop}), c.graph.integers({dim})});
  };
  return c.graph.add("Concat", {part(size - places, size), part(0, size - places)}, {{"axis", dim}});
}

void roll(Conversion& c) {
  const std::vector<std::int64_t> shifts = c.integers("shifts"), dims = c.integers("dims");
  std::string x = c.in();
  if (c.rank() == 0) return c.set_out(x);
  if (!dims.empty()) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t dim = dims[i] < 0 ? dims[i] + c.rank() : dims[i];
      x = rolled(c, x, dim, c.size(0, dim), shifts[i]);
    }
    return c.set_out(x);
  }
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < c.rank(); ++d) count *= c.size(0, d);
  c.set_out(c.reshape(rolled(c, c.reshape(x, {count}), 0, count, shifts.at(0)), c.out_shape()));
}

void repeat(Conversion& c) {
  const Sizes y = c.out_shape();
  Sizes x = c.shape(), repeats;
  x.insert(x.begin(), y.size() - x.size(), Size(1));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto times = [&](std::int64_t to, std::int64_t from) { return from == 0 ? 0 : to / from; };
    repeats.emplace_back(times(y[i].first, x[i].first), times(y[i].second, x[i].second));
  }
  const std::string wide = x.size() == c.shape().size() ? c.in() : c.reshape(c.in(), x);
  c.set_out(c.graph.add("Tile", {wide, c.graph.sizes(repeats)}));
}

/// Drops the elements that a negative padding takes off. `pads` has all starts, then all ends.
std::string cropped(Conversion& c, const std::string& x, const std::vector<std::int64_t>& pads) {
  const std::size_t rank = pads.size() / 2;
  std::vector<std::int64_t> starts, ends, axes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (pads[i] >= 0 && pads[rank + i] >= 0) continue;
    starts.push_back(std::max<std::int64_t>(-pads[i], 0));
    ends.push_back(pads[rank + i] < 0 ? pads[rank + i] : std::numeric_limits<std::int64_t>::max());
    axes.push_back(static_cast<std::int64_t>(i));
  }
  if (axes.empty()) return x;
  return c.graph.add("Slice", {x, c.graph.integers(starts), c.graph.integers(ends), c.graph.integers(axes)});
}

// ONNX lists the dims from the first on. Elements are mirrored before any are cut.
void pad(Conversion& c) {
  const std::vector<std::int64_t> padding = c.integers("padding");
  const auto rank = static_cast<std::size_t>(c.rank());
  std::vector<std::int64_t> pads(2 * rank, 0), added(2 * rank);
  for (std::size_t i = 0; 2 * i + 1 < padding.size(); ++i) {
    pads[rank - 1 - i] = padding[2 * i];
    pads[2 * rank - 1 - i] = padding[2 * i + 1];
  }
  std::transform(pads.begin(), pads.end(), added.begin(), [](std::int64_t n) { return std::max<std::int64_t>(n, 0); });
  const std::string mode = c.text("mode");
  Names inputs{c.in(), c.graph.integers(added)};
  if (mode == "constant") inputs.push_back(c.graph.number(c.number("value"), c.dtype()));
  c.set_out(cropped(c, c.graph.add("Pad", inputs, {{"mode", mode == "replicate" ? "edge" : mode}}), pads));
}

template <std::int64_t upper>
void triangle(Conversion& c) {
  c.set_out(c.graph.add("Trilu", {c.in(), c.graph.number(c.integer("diagonal"), DType::i64)}, {{"upper", upper}}));
}

constexpr Converter converters[] = {
    {"cat", cat},     {"channels_last", identity}, {"clone", identity},   {"contiguous", identity},
    {"copy_", copy_}, {"dropout", dropout},        {"fill_", fill_},      {"flip", flip},
    {"pad", pad},     {"repeat", repeat},          {"roll", roll},        {"stack", stack},
    {"to", to},       {"tril", triangle<0>},       {"triu", triangle<1>},
};

}  // namespace

Converters copy_converters() { return converters; }

}  // namespace bytetape::onnx
