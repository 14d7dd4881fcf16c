#include "bytetape/cuda/runtime/overlap.cuh"

#include <algorithm>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/runtime/per_device.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

__global__ void any_kernel() {}

using Range = OverlappingWrites::Range;

/// Returns the cache lines from the first to the last element of x. Strides are not negative.
Range lines_of(const ConstView& x) {
  constexpr std::uintptr_t line = 128;
  if (!x.defined() || x.numel() == 0) return {};
  std::int64_t last = 0;
  for (int d = 0; d < x.shape.size(); ++d) last += (x.shape[d] - 1) * x.strides[d];
  const auto begin = reinterpret_cast<std::uintptr_t>(x.data()),
             end = begin + static_cast<std::uintptr_t>(last + 1) * size_of(x.dtype);
  return {begin / line * line, (end + line - 1) / line * line};
}

void add(const Range& written, OverlappingWrites& to) {
  const auto is_there = [&](const Range& r) { return r.begin == written.begin && r.end == written.end; };
  if (written.begin == written.end || std::any_of(to.ranges, to.ranges + to.count, is_there)) return;
  to.ranges[to.count++] = written;
}

}  // namespace

// The driver may have compiled code for an older GPU, in which nothing waits.
bool can_overlap(Device device) {
  return once_per_device(device.index, [&] {
    streams_of(device.index);  // makes the device current
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, any_kernel));
    return capability(device) >= 90 && attributes.ptxVersion >= 90;
  });
}

bool may_read_early(const ConstView& x) {
  if (!x.defined()) return true;
  const OverlappingWrites& known = ambient.overlapping;
  if (!known.stream || known.stream != streams_for_work(x.device.index).made(memory::ambient.scope.stream))
    return false;
  const Range lines = lines_of(x);
  return std::none_of(known.ranges, known.ranges + known.count,
                      [&](const Range& r) { return lines.begin < r.end && r.begin < lines.end; });
}

std::pair<cudaStream_t, Turn> take_turn(const Launch& l) {
  OverlappingWrites known = ambient.overlapping;
  const cudaStream_t stream = stream_of(l.device);
  const bool is_recorded = ambient.recording.streams && ambient.recording.index == l.device.index;
  if (!is_recorded || !l.writes[0] || !can_overlap(l.device)) return {stream, {.waits_first = false}};
  const auto most = static_cast<int>(l.writes.size());
  const Turn turn{.waits_first = known.stream != stream || known.count + most > OverlappingWrites::most};
  if (turn.waits_first) known.count = 0;
  known.stream = stream;
  for (const View* const x : l.writes)
    if (x) add(lines_of(*x), known);
  ambient.overlapping = known;
  return {stream, turn};
}

}  // namespace bytetape::cuda
