#include <algorithm>
#include <bit>

#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/reduce.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/reduce_layout.h"

namespace bytetape::cuda {
namespace {

// Blocks that keep a large GPU busy, and that fill an H100 (132 multiprocessors, 4 blocks of 256 threads each).
constexpr std::int64_t enough_blocks = 132, full_blocks = 4 * enough_blocks;
constexpr int most_threads = 1024;
// A second launch costs about as much as `unsplit_elements` in one block. A split must have `split_elements` to pay.
constexpr std::int64_t unsplit_elements = std::int64_t{1} << 15, split_elements = std::int64_t{1} << 13;
constexpr std::int64_t sector = 32;       // bytes that memory returns at a time
constexpr std::size_t partial_bytes = 8;  // a double or a 64-bit integer

std::int64_t power_of_two(std::int64_t at_least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least)));
}

void split(ReduceLayout& r, std::int64_t splits, std::int64_t multiple) {
  splits = std::max<std::int64_t>(splits, 1);
  r.chunk = std::max<std::int64_t>(ceil_div(ceil_div(r.inputs, splits), multiple) * multiple, 1);
  r.splits = std::max<std::int64_t>(ceil_div(r.inputs, r.chunk), 1);
}

void lay_out_rows(ReduceLayout& r, bool may_split) {
  const std::int64_t n = r.inputs, lanes = r.lanes;
  const auto fit = [&] { r.blocks = ceil_div(r.outputs, r.threads / r.along); };
  // At most a warp per row, because warps combine without shared memory. Very long rows take a whole block.
  r.along = static_cast<int>(std::min<std::int64_t>(power_of_two(ceil_div(n, lanes * reduce_unroll)), 32));
  if (n > 32 * 32 * lanes) r.along = r.threads;
  fit();
  for (; r.along < r.threads && r.along * lanes < n && r.blocks < enough_blocks; fit()) r.along *= 2;
  const std::int64_t taken = n * (r.threads / r.along);  // inputs per block
  const bool is_split = may_split && r.blocks < full_blocks && taken > 2 * unsplit_elements;
  split(r, is_split ? std::min(full_blocks / r.blocks, taken / split_elements) : 1, 64);
  if (is_split || r.blocks >= enough_blocks) return;
  while (r.threads < most_threads && r.along == r.threads && r.along * lanes * reduce_unroll < n)
    r.threads = r.along *= 2;
}

void lay_out_columns(ReduceLayout& r, std::size_t element, bool may_split) {
  const std::int64_t lanes = r.lanes;
  const std::int64_t width = r.kept.shape.back(), runs = r.outputs / width;
  // The number of threads that n inputs can use.
  const auto useful = [](std::int64_t n) { return power_of_two(ceil_div(n, reduce_unroll)); };
  const auto fit = [&](std::int64_t across, std::int64_t n) {
    r.across = static_cast<int>(across);
    r.along = static_cast<int>(std::min(useful(n), r.threads / across));
    r.blocks = ceil_div(width, across * lanes) * ceil_div(runs, r.threads / (across * r.along));
  };
  const std::int64_t n = r.inputs, bytes = lanes * static_cast<std::int64_t>(element);
  const std::int64_t wide =
      std::min(power_of_two(ceil_div(width, lanes)), r.threads / std::min<std::int64_t>(useful(n), 8));
  fit(wide, n);
  while (r.blocks < enough_blocks && r.across * bytes > sector && useful(n) > r.along) fit(r.across / 2, n);
  const std::int64_t taken = n * lanes * (r.threads / r.along);
  split(r, 1, 1);
  if (!may_split || taken <= unsplit_elements) return;
  fit(wide, n);
  if (r.blocks >= full_blocks) return;
  split(r, std::min(full_blocks / r.blocks, n * lanes * (r.threads / r.along) / split_elements), 1);
  fit(wide, r.chunk);
}

void lay_out(ReduceLayout& r, std::size_t element, bool may_split) {
  r.outputs = numel(r.kept.shape);
  r.inputs = numel(r.reduced.shape);
  r.kept.complete();
  r.reduced.complete();
  // A dim that repeats elements cannot be the innermost one.
  const auto step = [](const Dims& strides) { return strides.back() == 0 ? INT64_MAX : strides.back(); };
  r.is_by_column = r.outputs > 1 && (r.inputs == 1 || step(r.kept.strides[0]) < step(r.reduced.strides[0]));
  if (r.is_by_column) {
    r.lanes = column_lanes(element);
    lay_out_columns(r, element, may_split);
  } else {
    // Lanes must be within one run of the innermost dim.
    const bool in_runs = r.reduced.shape.size() == 1 || r.reduced.shape.back() % row_lanes(element) == 0;
    r.lanes = in_runs ? row_lanes(element) : 1;
    lay_out_rows(r, may_split);
  }
}

}  // namespace

ReduceLayout reduce_layout(const ConstView& x, const View& y, bool may_split) {
  ReduceLayout r;
  Shape reduced = x.shape;
  for (int d = 0; d < x.rank(); ++d)
    if (y.shape[d] != 1) reduced[d] = 1;
  r.kept = {y.shape, {&x.strides, &y.strides}};
  r.reduced = {reduced, {&x.strides}};
  lay_out(r, size_of(x.dtype), may_split);
  return r;
}

ReduceLayout second_layout(const ReduceLayout& first, std::size_t element) {
  ReduceLayout r;
  const Strides dense = contiguous_strides(first.kept.shape);
  r.kept = {first.kept.shape, {&dense, &first.kept.strides[1]}};
  r.reduced.add(first.splits, {first.outputs});
  lay_out(r, element, false);
  return r;
}

static Plan plan(const SumArgs& args) {
  if (args.y.numel() == 0) return {};
  const ReduceLayout r = reduce_layout(args.x, args.y, true);
  if (r.splits == 1) return {};
  return {.workspace = static_cast<std::size_t>(r.splits * r.outputs) * partial_bytes};
}

const ReduceKernels& reduce_plans() {
  static const ReduceKernels all{
      .sum = {plan, nullptr},
      .prod = {plan, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
