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
/// An integer type other than bool, because sum(x, true) would mean dim 1.
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;
}  // namespace detail

/// The maximum number of dims of a tensor.
inline constexpr int max_rank = 8;

/// Up to eight integers, stored inline: a shape, strides, or a list of dims.
/// A longer list throws ShapeError when it is first used. That is within an op, so the message names the op.
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
  /// One integer, as in sum(x, 1) and zeros(5).
  template <detail::Integer T>
  Dims(T value) {
    check(std::in_range<std::int64_t>(+value), value, " is too large for a size or a dim");
    push_back(static_cast<std::int64_t>(value));
  }
  /// Returns `rank` copies of `value`.
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

  std::array<std::int64_t, max_rank> values_;  // only the first size_ are read
  int size_ = 0;
};

using Shape = Dims;    ///< sizes, outermost first
using Strides = Dims;  ///< steps in elements, by dim

/// Prints as PyTorch and NumPy do: "(2, 3)", "(5,)", and "()" for a scalar.
std::ostream& operator<<(std::ostream& out, const Dims& d);

/// Returns the number of elements; 1 for a scalar.
/// Throws ShapeError if a size is negative, or if the product of the nonzero sizes exceeds 2^62. So strides cannot
/// overflow.
std::int64_t numel(const Shape& shape);
/// Returns row-major strides, in elements.
Strides contiguous_strides(const Shape& shape);
/// Returns the strides of an NCHW shape stored as NHWC. Rank 4 only.
Strides channels_last_strides(const Shape& shape);
/// Whether the strides are row-major without gaps. Dims of size 1 do not matter.
bool is_contiguous(const Shape& shape, const Strides& strides);
/// Whether the strides are those of an NCHW shape stored as NHWC. False unless the rank is 4. Some shapes are also
/// row-major.
bool is_channels_last(const Shape& shape, const Strides& strides);
/// Whether the strides address numel() elements without gaps or repeats, in any order of dims.
bool is_dense(const Shape& shape, const Strides& strides);
/// Whether two strides address `shape` alike. Dims of size 1 do not matter.
bool same_layout(const Shape& shape, const Strides& a, const Strides& b);
/// Returns the broadcast shape, by NumPy's rules.
/// Throws ShapeError, naming both shapes, if they do not broadcast.
Shape broadcast(const Shape& a, const Shape& b);
/// Broadcasts `out` with `other` in place. Returns false, with `out` unspecified, if they do not broadcast.
bool broadcast_into(Shape& out, const Shape& other);
/// Whether a tensor of shape `from` can be expanded to `to`.
bool broadcasts_to(const Shape& from, const Shape& to);
/// Maps a dim in [-rank, rank) to [0, rank), where rank is the rank of `shape` plus `added`. A scalar has the dims -1
/// and 0, as in PyTorch.
/// Throws ShapeError, naming the range, if dim is out of range.
int wrap_dim(std::int64_t dim, const Shape& shape, int added = 0);
/// Applies wrap_dim to each dim, and sorts. An empty list means every dim.
/// Throws ShapeError if a dim is repeated.
Dims wrap_dims(const Dims& dims, const Shape& shape);
/// Returns `shape` with the given dims set to 1, or removed if !keepdim. Dims may be negative.
Shape reduced_shape(const Shape& shape, const Dims& dims, bool keepdim);

}  // namespace bytetape
