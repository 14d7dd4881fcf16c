#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "bytetape/core/device/transfer.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/tensor.h"
#include "bytetape/core/visit.h"

namespace bytetape {
namespace {

constexpr std::int64_t summarise_past = 1000, edge = 3;  // elements; elements shown at each end of a dim
constexpr std::size_t line_width = 100;

std::int64_t shown_size(std::int64_t size, bool summarise) { return summarise ? std::min(size, 2 * edge) : size; }

Tensor part(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  Shape shape = x.shape();
  shape[dim] = length;
  return x.alias(shape, x.strides(), x.storage_offset() + start * x.strides()[dim]);
}

// Copies the shown elements to the host: all of a short dim, and both ends of a long one.
void copy_shown(const Tensor& x, const Tensor& host, int dim) {
  if (dim == x.rank()) return copy_across(x, host);
  const std::int64_t size = x.shape()[dim];
  if (host.shape()[dim] == size) return copy_shown(x, host, dim + 1);
  copy_shown(part(x, dim, 0, edge), part(host, dim, 0, edge), dim + 1);
  copy_shown(part(x, dim, size - edge, edge), part(host, dim, edge, edge), dim + 1);
}

// Formats all numbers of a tensor in the same style, for comparison: "1.", "1.2500" or "1.2500e-06".
std::vector<std::string> cells_of(const std::vector<double>& values) {
  bool whole = true;
  double largest = 0, smallest = std::numeric_limits<double>::infinity();
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    whole = whole && v == std::trunc(v);
    largest = std::max(largest, std::abs(v));
    if (v != 0) smallest = std::min(smallest, std::abs(v));
  }
  const bool scientific = largest >= 1e8 || (!whole && (largest >= 1e6 || smallest < 1e-4));
  std::vector<std::string> cells;
  for (double v : values)
    cells.push_back(std::isnan(v)       ? "nan"
                    : !std::isfinite(v) ? fmt::format("{}", v)
                    : scientific        ? fmt::format("{:.4e}", v)
                    : whole             ? fmt::format("{:.0f}.", v)
                                        : fmt::format("{:.4f}", v));
  return cells;
}

std::vector<std::string> cells_of(const Tensor& host) {
  return visit(host.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* first = host.data<T>();
    const std::int64_t n = host.numel();
    if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T>) {
      std::vector<std::string> cells;
      for (std::int64_t i = 0; i < n; ++i) cells.push_back(fmt::format("{}", first[i]));
      return cells;
    } else {
      return cells_of(std::vector<double>(first, first + n));
    }
  });
}

class Printer {
 public:
  Printer(std::ostream& out, const Shape& shape, bool summarise, std::vector<std::string> cells)
      : out_(out), shape_(shape), summarise_(summarise), cells_(std::move(cells)) {
    for (const std::string& c : cells_) width_ = std::max(width_, c.size());
  }

  void print(int dim = 0) {
    if (dim == shape_.size()) {
      out_ << fmt::format("{:>{}}", cells_[next_++], width_);
      return;
    }
    const int inside =
        shape_.size() - 1 - dim;  // dims inside this one, which is the number of line breaks between two parts
    const bool row = inside == 0;
    const std::size_t indent = static_cast<std::size_t>(dim) + 1;
    const std::size_t per_line = std::max<std::size_t>(1, (line_width - indent) / (width_ + 2));
    const auto gap = [&](int breaks) {
      return std::string(",").append(static_cast<std::size_t>(breaks), '\n').append(indent, ' ');
    };
    const std::string rows = gap(inside), wrapped = gap(1);
    std::size_t on_line = 0;
    out_ << '[';
    for (std::int64_t i = 0, n = shown_size(shape_[dim], summarise_); i < n; ++i) {
      if (i && row) out_ << (on_line % per_line ? ", " : wrapped);
      if (i && !row) out_ << rows;
      if (n < shape_[dim] && i == edge) {
        out_ << "..." << (row ? ", " : rows);
        ++on_line;
      }
      print(dim + 1);
      ++on_line;
    }
    out_ << ']';
  }

 private:
  std::ostream& out_;
  const Shape& shape_;
  bool summarise_;
  std::vector<std::string> cells_;
  std::size_t width_ = 0, next_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  if (!x.defined()) return out << describe(x);
  if (x.device().is_meta) return out << "[no data]\n" << describe(x);
  if (x.numel() == 0) return out << "[]\n" << describe(x);
  const memory::Op<"print"> op;
  const bool summarise = x.numel() > summarise_past;
  Shape shape = x.shape();
  for (std::int64_t& n : shape) n = shown_size(n, summarise);
  const Tensor host = empty(shape, x.dtype(), Device::cpu());
  copy_shown(x, host, 0);
  Printer(out, x.shape(), summarise, cells_of(host)).print();
  return out << '\n' << describe(x);
}

}  // namespace bytetape
