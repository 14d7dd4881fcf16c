#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <utility>
#include <vector>

#include "bytetape/core/error.h"

namespace bytetape {

namespace detail {
/// No bool: sum(x, true) would mean dim 1.
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;
}  // namespace detail

/// The most dims that a tensor has.
inline constexpr int max_rank = 8;

/// Up to eight integers, inline: a shape, strides, or a list of dims. Cheap to copy, no heap. A list of more throws
/// ShapeError when it is first looked at, which is within the op that it was written for: so the message names that op.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  Dims(const std::vector<std::int64_t>& values) : Dims(std::span(values)) {}
  constexpr explicit Dims(std::span<const std::int64_t> values) {
    for (std::int64_t v : values)
      if (size_ < max_rank)
        push_back(v);
      else
        size_ = too_many;
  }
  /// One integer: sum(x, 1), zeros(5).
  template <detail::Integer T>
  Dims(T value) {
    check(std::in_range<std::int64_t>(+value), value, " is too large for a size or a dim");
    push_back(static_cast<std::int64_t>(value));
  }
  /// `rank` times `value`.
  static constexpr Dims filled(int rank, std::int64_t value) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(value);
    return d;
  }

  constexpr int size() const {
    if (size_ == too_many) [[unlikely]]
      fail_too_many();
    return size_;
  }
  constexpr bool empty() const { return size_ == 0; }
  constexpr std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + size(); }
  constexpr std::int64_t* begin() { return values_.data(); }
  constexpr std::int64_t* end() { return values_.data() + size(); }
  constexpr std::int64_t back() const { return (*this)[size() - 1]; }

  constexpr void push_back(std::int64_t v) {
    if (size() == max_rank)
      fail<ShapeError>("a tensor has at most ", max_rank, " dimensions, and these are more: ", *this, " and ", v);
    values_[static_cast<std::size_t>(size_++)] = v;
  }
  constexpr void insert(int at, std::int64_t v) {
    push_back(v);
    for (int i = size_ - 1; i > at; --i) (*this)[i] = (*this)[i - 1];
    (*this)[at] = v;
  }
  constexpr void erase(int at) {
    for (int i = at; i + 1 < size(); ++i) (*this)[i] = (*this)[i + 1];
    --size_;
  }

  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.size() != b.size()) return false;
    for (int i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  static constexpr int too_many = max_rank + 1;
  [[noreturn]] void fail_too_many() const;

  std::array<std::int64_t, max_rank> values_;  // only the first size_ are ever read
  int size_ = 0;
};

using Shape = Dims;    ///< sizes, outermost first
using Strides = Dims;  ///< steps in elements, by dim

/// "(2, 3)"; "(5,)" for one dim and "()" for a scalar, as PyTorch and numpy print them.
std::ostream& operator<<(std::ostream& out, const Dims& d);

/// Number of elements; 1 for a scalar. Throws ShapeError where a size is negative, or the product of those that are not
/// 0 passes 2^62: strides of a shape that it lets through do not overflow.
std::int64_t numel(const Shape& shape);
/// Row-major strides, in elements.
Strides contiguous_strides(const Shape& shape);
/// Strides of an NCHW shape stored as NHWC. Rank 4 only.
Strides channels_last_strides(const Shape& shape);
/// True where walking `shape` by `strides` is row-major without gaps; dims of size 1 do not matter.
bool is_contiguous(const Shape& shape, const Strides& strides);
/// The same for an NCHW shape stored as NHWC; false for other ranks than 4. A shape may be both.
bool is_channels_last(const Shape& shape, const Strides& strides);
/// True where the strides address numel() elements without gaps or repeats, in whatever order of dims.
bool is_dense(const Shape& shape, const Strides& strides);
/// True where two strides walk `shape` alike; dims of size 1 do not matter.
bool same_layout(const Shape& shape, const Strides& a, const Strides& b);
/// NumPy broadcasting; throws ShapeError naming both shapes.
Shape broadcast(const Shape& a, const Shape& b);
/// The same, kept in `out`; false, with `out` as it comes, where the shapes do not fit.
bool broadcast_into(Shape& out, const Shape& other);
/// True where a tensor of shape `from` can be expanded to `to`.
bool broadcasts_to(const Shape& from, const Shape& to);
/// Maps -rank..rank-1 to 0..rank-1, where rank is that of `shape` with `added` dims more; throws ShapeError naming
/// the range. A scalar has the dims -1 and 0, as in PyTorch.
int wrap_dim(std::int64_t dim, const Shape& shape, int added = 0);
/// wrap_dim for each, sorted; empty means every dim. Throws ShapeError on repeats.
Dims wrap_dims(const Dims& dims, const Shape& shape);
/// `shape` with the listed dims (wrapped) set to 1, or dropped where !keepdim.
Shape reduced_shape(const Shape& shape, const Dims& dims, bool keepdim);

}  // namespace bytetape
