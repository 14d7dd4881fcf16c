#include "bytetape/cuda/matmul/parts.h"

#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/matmul/matmul_layout.h"

namespace bytetape::cuda {
namespace {

constexpr std::int64_t multiple = 8;
constexpr std::int64_t least = std::int64_t{1} << 34;  // multiplications; the second part of a smaller one costs more

bool has_aligned_rows(const ConstView& x) {
  const std::int64_t width = 16 / static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t leading = layout_of(x).leading;
  return leading > 0 && leading % width == 0 && (x.shape[0] == 1 || x.strides[0] % width == 0) && is_aligned(x);
}

MatmulArgs part_of(const MatmulArgs& args, ProductDim dim, std::int64_t first, std::int64_t count) {
  MatmulArgs part = args;
  if (dim != ProductDim::n) part.a = range_of(args.a, dim == ProductDim::m ? 1 : 2, first, count);
  if (dim != ProductDim::m) part.b = range_of(args.b, dim == ProductDim::k ? 1 : 2, first, count);
  if (dim != ProductDim::k) part.y = range_of(args.y, dim == ProductDim::m ? 1 : 2, first, count);
  part.accumulates = args.accumulates || (dim == ProductDim::k && first > 0);
  return part;
}

std::int64_t size_of_dim(const MatmulArgs& args, ProductDim dim) {
  if (dim == ProductDim::k) return args.a.shape[2];
  return args.y.shape[dim == ProductDim::m ? 1 : 2];
}

}  // namespace

std::optional<ProductDim> dim_to_divide(const MatmulArgs& args) {
  const bool is_plain = size_of(args.a.dtype) == 2 && !args.bias.defined() && args.activation == Activation::none;
  if (!is_plain || args.y.numel() * args.a.shape[2] < least) return std::nullopt;
  if (!has_aligned_rows(args.a) || !has_aligned_rows(args.b) || !has_aligned_rows(args.y)) return std::nullopt;
  for (const ProductDim dim : {ProductDim::m, ProductDim::n, ProductDim::k})
    if (const std::int64_t n = size_of_dim(args, dim); n > multiple && n % multiple != 0) return dim;
  return std::nullopt;
}

Parts divide(const MatmulArgs& args, ProductDim dim) {
  const std::int64_t n = size_of_dim(args, dim), whole = n / multiple * multiple;
  return {part_of(args, dim, 0, whole), part_of(args, dim, whole, n - whole)};
}

}  // namespace bytetape::cuda
