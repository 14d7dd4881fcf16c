#include "bytetape/core/shape.h"

#include <algorithm>
#include <ostream>

namespace bytetape {

std::ostream& operator<<(std::ostream& out, const Dims& d) {
  out << '(';
  for (int i = 0; i < d.size(); ++i) out << (i ? ", " : "") << d[i];
  return out << (d.size() == 1 ? ",)" : ")");
}

void Dims::fail_too_many() const {
  Dims first = *this;
  first.size_ = max_rank;
  fail<ShapeError>("a tensor has at most ", max_rank, " dimensions, and these are more: ", first, " and others");
}

std::int64_t numel(const Shape& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t n = 1;
  bool none = false;
  for (std::int64_t v : shape) {
    check(v >= 0, "a shape has no negative sizes, got ", shape);
    none = none || v == 0;
    check(!__builtin_mul_overflow(n, v == 0 ? 1 : v, &n) && n <= most, "a tensor of shape ", shape,
          " has too many elements");
  }
  return none ? 0 : n;
}

Strides contiguous_strides(const Shape& shape) {
  Strides s = shape;
  std::int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    s[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return s;
}

Strides channels_last_strides(const Shape& shape) {
  const std::int64_t c = std::max<std::int64_t>(shape[1], 1), h = std::max<std::int64_t>(shape[2], 1),
                     w = std::max<std::int64_t>(shape[3], 1);
  return {h * w * c, 1, w * c, c};
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  bool rows = true;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1) {
      rows = rows && strides[i] == step;
      step *= shape[i];
    }
  }
  return rows;
}

bool is_dense(const Shape& shape, const Strides& strides) {
  if (numel(shape) == 0) return true;
  Dims order;
  for (int i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return strides[static_cast<int>(a)] < strides[static_cast<int>(b)]; });
  std::int64_t step = 1;
  for (std::int64_t d : order) {
    if (strides[static_cast<int>(d)] != step) return false;
    step *= shape[static_cast<int>(d)];
  }
  return true;
}

bool same_layout(const Shape& shape, const Strides& a, const Strides& b) {
  for (int i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && a[i] != b[i]) return false;
  return true;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  return shape.size() == 4 && (numel(shape) == 0 || same_layout(shape, strides, channels_last_strides(shape)));
}

bool broadcast_into(Shape& out, const Shape& other) {
  while (out.size() < other.size()) out.insert(0, 1);
  for (int i = 1; i <= other.size(); ++i) {
    std::int64_t& o = out[out.size() - i];
    const std::int64_t s = other[other.size() - i];
    if (o == 1)
      o = s;
    else if (s != 1 && s != o)
      return false;
  }
  return true;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out = a;
  if (!broadcast_into(out, b)) fail<ShapeError>("shapes ", a, " and ", b, " do not broadcast");
  return out;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  Shape out = to;
  return broadcast_into(out, from) && out == to;
}

int wrap_dim(std::int64_t dim, const Shape& shape, int added) {
  const int n = std::max(shape.size() + added, 1);  // a 0-D tensor accepts dims -1 and 0, as in PyTorch
  if (dim < -n || dim >= n)
    fail<ShapeError>("dim ", dim, " is out of range for ", added ? "a dim added to shape " : "shape ", shape, " (", -n,
                     " to ", n - 1, ")");
  return static_cast<int>(dim < 0 ? dim + n : dim);
}

Dims wrap_dims(const Dims& dims, const Shape& shape) {
  Dims out;
  if (dims.empty()) {
    for (int i = 0; i < shape.size(); ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t d : dims) {
    const int w = wrap_dim(d, shape);
    if (std::find(out.begin(), out.end(), w) != out.end())
      fail<ShapeError>("dim ", w, " appears twice in dims ", dims, " of shape ", shape);
    if (!shape.empty()) out.push_back(w);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Shape reduced_shape(const Shape& shape, const Dims& dims, bool keepdim) {
  Shape out = shape;
  const Dims wrapped = wrap_dims(dims, shape);
  for (std::int64_t d : wrapped) out[static_cast<int>(d)] = 1;
  if (!keepdim)
    for (int i = wrapped.size() - 1; i >= 0; --i) out.erase(static_cast<int>(wrapped[i]));
  return out;
}

}  // namespace bytetape
