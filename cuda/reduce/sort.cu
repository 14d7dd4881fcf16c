#include "bytetape/cuda/reduce/sort.h"

#include <cub/device/device_radix_sort.cuh>

#include "bytetape/core/error.h"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

// A radix sort is stable: equal keys stay in order.
Pairs sort_pairs(Pairs pairs, Pairs other, std::int64_t n, int bits, Workspace scratch, cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> keys(pairs.keys, other.keys);
  cub::DoubleBuffer<std::int64_t> values(pairs.values, other.values);
  const auto sort = [&](void* data, std::size_t& bytes) {
    cuda::check(cub::DeviceRadixSort::SortPairs(data, bytes, keys, values, n, 0, bits, stream));
  };
  std::size_t needed = 0;
  sort(nullptr, needed);
  bytetape::check<Error>(needed <= scratch.bytes, "cub::DeviceRadixSort asks for ", needed, " bytes to sort ", n,
                         " elements, more than was planned");
  sort(scratch.data, needed);
  return {keys.Current(), values.Current()};
}

}  // namespace bytetape::cuda
