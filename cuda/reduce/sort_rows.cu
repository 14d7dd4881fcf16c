// Sorts rows along a dim (core/kernels/sort.h). Every way sorts tickets, whose order is unique (core/sort_key.h). Short
// rows are sorted by a bitonic network in shared memory (Batcher, "Sorting networks and their applications", 1968).
// For few elements of a long row, a block finds the last key that is kept, digit by digit from the top, and sorts what
// is at or before it. All other rows are sorted together by one radix sort, with the row above the key.
#include "bytetape/cuda/reduce/sort_rows.h"

#include <algorithm>
#include <bit>

#include "bytetape/core/sort_key.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/index.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/sort.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int sort_threads = 512, select_threads = 1024, warp = 32;

template <class T>
using Ticket = std::conditional_t<sizeof(T) <= 4, PackedTicket, WideTicket>;

/// The rows of x, the values and the indices. values may be null.
template <class T>
struct Rows {
  Steps<3, std::int64_t> rows;
  std::int64_t steps[3];  // within a row: of indices, values and x
  std::int64_t size, kept;
  bool descending;
  const T* x;
  T* values;
  std::int64_t* indices;

  explicit Rows(const SortArgs& a, const Walk<3>& walk)
      : rows(walk),
        steps{a.indices.strides[a.dim], a.values.defined() ? a.values.strides[a.dim] : 0, a.x.strides[a.dim]},
        size(a.x.shape[a.dim]),
        kept(a.indices.shape[a.dim]),
        descending(a.descending),
        x(a.x.as<T>()),
        values(a.values.as<T>()),
        indices(a.indices.as<std::int64_t>()) {}

  __device__ std::uint64_t key(const std::int64_t (&row)[3], std::int64_t i) const {
    return sort_key(x[row[2] + i * steps[2]], descending);
  }
  /// Stores element `at` of the row as number i of the result.
  __device__ void store(const std::int64_t (&row)[3], std::int64_t i, std::int64_t at) const {
    indices[row[0] + i * steps[0]] = at;
    if (values) values[row[1] + i * steps[1]] = x[row[2] + at * steps[2]];
  }
};

template <class T>
Rows<T> rows_of(const SortArgs& a) {
  Shape others = a.indices.shape;
  others[a.dim] = 1;
  const Strides none = Dims::filled(others.size(), 0);
  Walk<3> walk(others, {&a.indices.strides, a.values.defined() ? &a.values.strides : &none, &a.x.strides});
  walk.complete();
  return Rows<T>(a, walk);
}

/// Sorts each `width` adjacent tickets of `total`, both powers of two. Every thread of the block must call this.
template <class K>
__device__ void sort_tickets(K* tickets, int total, int width) {
  for (int size = 2; size <= width; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < total / 2; pair += static_cast<int>(blockDim.x)) {
        const int low = 2 * pair - (pair & (apart - 1)), high = low + apart;
        const bool ascends = (low & (width - 1) & size) == 0;
        const K a = tickets[low], b = tickets[high];
        if ((b < a) == ascends) tickets[low] = b, tickets[high] = a;
      }
    }
  __syncthreads();
}

/// Sorts `total` / `width` rows at a time, both powers of two. Missing elements get the last ticket.
template <class T>
__global__ void __launch_bounds__(sort_threads)
    sort_in_block_kernel(const __grid_constant__ Rows<T> r, int total, int width) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const tickets = reinterpret_cast<Ticket<T>*>(memory);
  const int at_once = total / width;
  const auto for_each = [&](std::int64_t first, std::int64_t count, const auto& f) {
    for (int t = static_cast<int>(threadIdx.x); t < total; t += static_cast<int>(blockDim.x)) {
      const std::int64_t number = first + t / width, i = t % width;
      const bool is_there = number < r.rows.count && i < count;
      std::int64_t row[3] = {};
      if (is_there) r.rows.find(number, row);
      f(t, row, i, is_there);
    }
  };
  for (std::int64_t first = std::int64_t{blockIdx.x} * at_once; first < r.rows.count;
       first += std::int64_t{gridDim.x} * at_once) {
    for_each(first, r.size, [&](int t, const auto& row, std::int64_t i, bool is_there) {
      tickets[t] = is_there ? Ticket<T>::of(r.key(row, i), i) : Ticket<T>::last();
    });
    sort_tickets(tickets, total, width);
    for_each(first, r.kept, [&](int t, const auto& row, std::int64_t i, bool is_there) {
      if (is_there) r.store(row, i, tickets[t].index());
    });
    __syncthreads();  // all tickets are read before the next rows are written
  }
}

template <class T>
void sort_in_block(const SortArgs& a, const SortRows& s) {
  const int width = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(s.size)));
  const auto rows = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(s.count, 1024))));
  const int total = std::max(width, std::min(width * rows, 2 * sort_threads));  // else a pair per thread
  const int threads = std::clamp(total / 2, warp, sort_threads);
  const std::int64_t at_once = total / width, blocks = (s.count + at_once - 1) / at_once;
  const auto grid = static_cast<unsigned>(std::min(blocks, std::int64_t{processors(a.x.device)} * 64));
  sort_in_block_kernel<T>
      <<<grid, threads, static_cast<std::size_t>(total) * sizeof(Ticket<T>), stream_of(a.x.device)>>>(rows_of<T>(a),
                                                                                                      total, width);
  check_launch();
}

/// The digit of keys in which the last element that is kept lies, and how many of that digit are kept.
struct Digit {
  unsigned digit;
  std::int64_t kept;
};

/// Finds the digit of the element number `kept`, counted from 1, from the number of elements of each digit. Every
/// thread of the block must call this.
__device__ Digit find_digit(const unsigned (&counts)[256], std::int64_t kept) {
  __shared__ Digit found;
  const int t = static_cast<int>(threadIdx.x);
  __syncthreads();  // the counts are complete
  if (t < warp) {
    constexpr int each = 256 / warp;
    std::int64_t sum = 0;
    for (int k = 0; k < each; ++k) sum += counts[each * t + k];
    std::int64_t end = sum;  // elements of this thread's digits and those before
    for (int apart = 1; apart < warp; apart *= 2) {
      const std::int64_t other = __shfl_up_sync(~0u, end, apart);
      if (t >= apart) end += other;
    }
    std::int64_t rest = kept - (end - sum);
    if (rest > 0 && rest <= sum) {  // true of one thread
      unsigned digit = static_cast<unsigned>(each * t);
      for (; rest > counts[digit]; ++digit) rest -= counts[digit];
      found = {digit, rest};
    }
  }
  __syncthreads();
  return found;
}

/// Counts the digit of a key for which `is_there`. Threads of a warp with the same digit count together, because most
/// floats have the same first digits. Every thread of the warp must call this.
__device__ void count_digit(unsigned (&counts)[256], unsigned digit, bool is_there) {
  const unsigned same = __match_any_sync(~0u, is_there ? digit : 256u);
  if (is_there && static_cast<int>(threadIdx.x % warp) == __ffs(static_cast<int>(same)) - 1)
    atomicAdd(&counts[digit], static_cast<unsigned>(__popc(same)));
}

/// Returns the number of threads before this one for which `is_it` holds. Every thread of the block must call this.
__device__ unsigned count_before(bool is_it) {
  __shared__ unsigned of_warps[select_threads / warp];
  const unsigned t = threadIdx.x, mask = __ballot_sync(~0u, is_it);
  __syncthreads();  // all threads have read the previous call's counts
  if (t % warp == 0) of_warps[t / warp] = static_cast<unsigned>(__popc(mask));
  __syncthreads();
  unsigned before = static_cast<unsigned>(__popc(mask & ((1u << t % warp) - 1)));
  for (unsigned w = 0; w < t / warp; ++w) before += of_warps[w];
  return before;
}

/// The last key of a row that is kept, and how many elements with this key are kept.
template <class T>
struct Threshold {
  std::uint64_t key = 0;
  std::int64_t equal;

  __device__ Threshold(const Rows<T>& r, const std::int64_t (&row)[3]) : equal(r.kept) {
    constexpr int bits = 8 * sizeof(T), at_once = 4;
    __shared__ unsigned counts[256];
    for (int shift = bits - 8; shift >= 0; shift -= 8) {
      __syncthreads();  // all threads have read the counts of the digit before
      for (unsigned c = threadIdx.x; c < 256; c += select_threads) counts[c] = 0;
      __syncthreads();
      for (std::int64_t base = threadIdx.x; base - threadIdx.x < r.size; base += at_once * select_threads) {
        std::uint64_t keys[at_once];
#pragma unroll
        for (int k = 0; k < at_once; ++k)
          keys[k] = base + k * select_threads < r.size ? r.key(row, base + k * select_threads) : 0;
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
          const bool is_first = shift + 8 == bits;
          const bool is_there =
              base + k * select_threads < r.size && (is_first || keys[k] >> (is_first ? 0 : shift + 8) == key);
          count_digit(counts, static_cast<unsigned>(keys[k] >> shift & 255), is_there);
        }
      }
      const Digit last = find_digit(counts, equal);
      key = key << 8 | last.digit;
      equal = last.kept;
    }
  }
};

/// Writes the tickets of the elements of a row that are kept, in any order. Of those with the last key, the first are
/// kept.
template <class T>
__device__ void collect(const Rows<T>& r, const std::int64_t (&row)[3], Ticket<T>* tickets) {
  __shared__ unsigned before;  // tickets of keys before the last one
  const Threshold<T> last(r, row);
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  Ticket<T>* const equals = tickets + (r.kept - last.equal);
  std::int64_t seen = 0;  // elements with the last key
  for (std::int64_t base = 0; base < r.size; base += select_threads) {
    const std::int64_t i = base + threadIdx.x;
    const bool is_there = i < r.size;
    const std::uint64_t key = is_there ? r.key(row, i) : 0;
    if (is_there && key < last.key) tickets[atomicAdd(&before, 1u)] = Ticket<T>::of(key, i);
    const bool is_equal = is_there && key == last.key;
    const int here = __syncthreads_count(is_equal);
    if (here > 0 && seen < last.equal) {
      const std::int64_t number = seen + count_before(is_equal);
      if (is_equal && number < last.equal) equals[number] = Ticket<T>::of(key, i);
    }
    seen += here;
  }
}

/// A block takes a row. The results of a row have `width` tickets, a power of two.
template <class T>
__global__ void __launch_bounds__(select_threads) select_kernel(const __grid_constant__ Rows<T> r, int width) {
  __shared__ Ticket<T> tickets[SortRows::most_selected];
  for (std::int64_t number = blockIdx.x; number < r.rows.count; number += gridDim.x) {
    std::int64_t row[3];
    r.rows.find(number, row);
    for (std::int64_t t = r.kept + threadIdx.x; t < width; t += select_threads) tickets[t] = Ticket<T>::last();
    collect(r, row, tickets);
    sort_tickets(tickets, width, width);
    for (std::int64_t i = threadIdx.x; i < r.kept; i += select_threads) r.store(row, i, tickets[i].index());
    __syncthreads();  // all tickets are read before the next row is written
  }
}

template <class T>
void select(const SortArgs& a, const SortRows& s) {
  const auto grid = static_cast<unsigned>(std::min(s.count, std::int64_t{processors(a.x.device)} * 16));
  const int width = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(s.kept)));
  select_kernel<T><<<grid, select_threads, 0, stream_of(a.x.device)>>>(rows_of<T>(a), width);
  check_launch();
}

__device__ std::int64_t this_thread() { return std::int64_t{blockIdx.x} * block_size + threadIdx.x; }
__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * block_size; }

/// Writes the key of each element, below its row if `row_shift` is not 0, and the number of the element.
template <class T>
__global__ void __launch_bounds__(block_size)
    keys_kernel(const __grid_constant__ Rows<T> r, int row_shift, Pairs pairs) {
  const std::int64_t n = r.rows.count * r.size;
  for (std::int64_t e = this_thread(); e < n; e += all_threads()) {
    const std::int64_t number = e / r.size, i = e - number * r.size;
    std::int64_t row[3];
    r.rows.find(number, row);
    const std::uint64_t above = row_shift > 0 ? static_cast<std::uint64_t>(number) << row_shift : 0;
    pairs.keys[e] = above | r.key(row, i);
    pairs.values[e] = e;
  }
}

/// Replaces each key by the number of its element's row.
__global__ void __launch_bounds__(block_size) row_keys_kernel(Pairs pairs, std::int64_t size, std::int64_t n) {
  for (std::int64_t e = this_thread(); e < n; e += all_threads())
    pairs.keys[e] = static_cast<std::uint64_t>(pairs.values[e] / size);
}

/// Stores the first elements of each row. `sorted` has the numbers of the elements, row by row.
template <class T>
__global__ void __launch_bounds__(block_size)
    store_kernel(const __grid_constant__ Rows<T> r, const std::int64_t* sorted) {
  for (std::int64_t o = this_thread(); o < r.rows.count * r.kept; o += all_threads()) {
    const std::int64_t number = o / r.kept, i = o - number * r.kept, begin = number * r.size;
    std::int64_t row[3];
    r.rows.find(number, row);
    r.store(row, i, sorted[begin + i] - begin);
  }
}

/// The scratch of the radix sort: two buffers of keys and of numbers, and what the sort itself needs.
struct Scratch {
  Pairs first, second;
  Workspace rest;

  Scratch(Workspace ws, std::size_t buffer) {
    auto* data = static_cast<char*>(ws.data);
    for (Pairs* p : {&first, &second}) {
      p->keys = reinterpret_cast<std::uint64_t*>(data);
      p->values = reinterpret_cast<std::int64_t*>(data + buffer);
      data += 2 * buffer;
    }
    rest = {data, ws.bytes - 4 * buffer};
  }
  /// Returns the buffers that are not p's.
  Pairs other(const Pairs& p) const {
    return {p.keys == first.keys ? second.keys : first.keys, p.values == first.values ? second.values : first.values};
  }
};

// If a number does not hold both the row and the key, a second, stable sort by row follows the one by key.
template <class T>
void sort_by_radix(const SortArgs& a, const SortRows& s, Workspace ws) {
  const std::int64_t n = s.count * s.size;
  const cudaStream_t stream = stream_of(a.x.device);
  const unsigned blocks = blocks_for(n, a.x.device);
  const Scratch scratch(ws, sort_buffer(n));
  const Rows<T> rows = rows_of<T>(a);
  const bool is_joint = s.has_joint_keys();
  keys_kernel<T><<<blocks, block_size, 0, stream>>>(rows, is_joint && s.row_bits > 0 ? s.key_bits : 0, scratch.first);
  check_launch();
  const int bits = s.key_bits + (is_joint ? s.row_bits : 0);
  Pairs sorted = sort_pairs(scratch.first, scratch.second, n, bits, scratch.rest, stream);
  if (!is_joint) {
    row_keys_kernel<<<blocks, block_size, 0, stream>>>(sorted, s.size, n);
    check_launch();
    sorted = sort_pairs(sorted, scratch.other(sorted), n, s.row_bits, scratch.rest, stream);
  }
  store_kernel<T><<<blocks_for(s.count * s.kept, a.x.device), block_size, 0, stream>>>(rows, sorted.values);
  check_launch();
}

void sort(const SortArgs& a, const Plan&, Workspace ws) {
  const SortRows rows(a);
  if (rows.way == SortRows::Way::none) return;
  visit(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (rows.way == SortRows::Way::in_block)
      sort_in_block<T>(a, rows);
    else if (rows.way == SortRows::Way::selected)
      select<T>(a, rows);
    else
      sort_by_radix<T>(a, rows, ws);
  });
}

/// Moves the elements of `near`, or to them, by an index of places in `far`. A step finds an element of near, its
/// index, and the start of its row in far.
template <bool places, class T, class Steps>
__global__ void __launch_bounds__(block_size) move_kernel(const __grid_constant__ Steps steps, T* near,
                                                          const std::int64_t* index, T* far, std::int64_t far_step) {
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[3];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    T& chosen = far[at[2] + index[at[1]] * far_step];
    if (places)
      chosen = near[at[0]];
    else
      near[at[0]] = chosen;
  }
}

template <bool places>
void move(const ConstView& near, const ConstView& index, const ConstView& far, int dim) {
  if (index.numel() == 0) return;
  Strides of_row = far.strides;
  of_row[dim] = 0;
  Walk<3> walk(index.shape, {&near.strides, &index.strides, &of_row});
  walk.complete();
  visit_bits(near.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_steps(walk, [&](const auto& steps) {
      move_kernel<places><<<blocks_for(index.numel(), near.device), block_size, 0, stream_of(near.device)>>>(
          steps, static_cast<T*>(const_cast<void*>(near.data())), index.as<std::int64_t>(),
          static_cast<T*>(const_cast<void*>(far.data())), far.strides[dim]);
    });
  });
  check_launch();
}

void pick(const ConstView& x, const ConstView& index, int dim, const View& y) { move<false>(y, index, x, dim); }
void place(const ConstView& x, const ConstView& index, int dim, const View& y) { move<true>(x, index, y, dim); }

}  // namespace

const SortKernels& sort_kernels() {
  static const SortKernels all{
      .sort = {sort_plans().sort.plan, sort},
      .pick = pick,
      .place = place,
  };
  return all;
}

}  // namespace bytetape::cuda
