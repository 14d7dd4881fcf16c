// Thread c converts the four words of Philox counter c to two or four elements. Words and rounding are the same as on
// the CPU.
#include <array>
#include <numbers>

#include "bytetape/core/philox.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/reduce/multinomial.h"
#include "bytetape/cuda/reduce/sort.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

using Words = std::array<std::uint32_t, 4>;

/// Fills a dense y whose memory is in row-major order.
template <class Make, class T = typename Make::Element>
__global__ void __launch_bounds__(block_size)
    dense_kernel(PhiloxState state, Make make, T* y, std::int64_t n, bool is_aligned) {
  constexpr int count = Make::count;
  state = started(state);
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t c = std::int64_t{blockIdx.x} * block_size + threadIdx.x; c * count < n; c += step) {
    detail::Lanes<T, count> drawn;
    make(philox(state.seed, state.offset + static_cast<std::uint64_t>(c)), drawn.values);
    const std::int64_t first = c * count;
    if (is_aligned && first + count <= n)
      *reinterpret_cast<detail::Lanes<T, count>*>(y + first) = drawn;
    else
      for (int k = 0; k < count; ++k)
        if (first + k < n) y[first + k] = drawn.values[k];
  }
}

/// Fills any other y. The walk is in row-major order.
template <class Make, class T = typename Make::Element>
__global__ void __launch_bounds__(block_size)
    strided_kernel(PhiloxState state, Make make, T* y, Steps<2, std::int64_t> walk) {
  constexpr int count = Make::count;
  state = started(state);
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t c = std::int64_t{blockIdx.x} * block_size + threadIdx.x; c * count < walk.count; c += step) {
    T drawn[count];
    make(philox(state.seed, state.offset + static_cast<std::uint64_t>(c)), drawn);
    for (int k = 0; k < count; ++k)
      if (c * count + k < walk.count) {
        std::int64_t offsets[2];
        walk.find(c * count + k, offsets);
        y[offsets[1]] = drawn[k];
      }
  }
}

/// Fills y with values that make(words, values) computes from each counter's words.
template <class Make>
void generate(const PhiloxState& state, const View& y, const Make& make) {
  using T = typename Make::Element;
  const std::int64_t n = y.numel();
  if (n == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const unsigned blocks = blocks_for((n + Make::count - 1) / Make::count, y.device);
  if (y.is_contiguous()) {
    const bool is_aligned = cuda::is_aligned(y, sizeof(T) * Make::count);
    dense_kernel<<<blocks, block_size, 0, stream>>>(state, make, y.as<T>(), n, is_aligned);
  } else {
    const Strides row_major = contiguous_strides(y.shape);  // sets the order of the walk
    const Steps<2, std::int64_t> walk(Walk<2>(y.shape, {&row_major, &y.strides}));
    strided_kernel<<<blocks, block_size, 0, stream>>>(state, make, y.as<T>(), walk);
  }
  check_launch();
}

template <class T>
__host__ __device__ T to_float(double v) {
  return static_cast<T>(static_cast<compute_t<T>>(v));
}
template <class T>
inline constexpr int words_of = sizeof(T) == 8 ? 2 : 1;

template <class T>
struct Uniform {
  using Element = T;
  static constexpr int count = 4 / words_of<T>;
  double low, range;
  T top;

  Uniform(double low, double high) : low(low), range(high - low), top(uniform_top<T>(low, high)) {}
  __device__ void operator()(const Words& words, T (&values)[count]) const {
    for (int i = 0; i < count; ++i) {
      double u;
      if constexpr (count == 2)
        u = unit_double(words[2 * i], words[2 * i + 1]);
      else
        u = double{unit_float(words[i])};
      const T v = to_float<T>(::fma(u, range, low));
      values[i] = v < top ? v : top;
    }
  }
};

void uniform(PhiloxState state, double low, double high, const View& y) {
  visit_floating(y.dtype, [&](auto zero) { generate(state, y, Uniform<decltype(zero)>(low, high)); });
}

// Elements 2j and 2j + 1 are a pair of Box & Muller, "A note on the generation of random normal deviates", 1958.
template <class T>
struct Normal {
  using Element = T;
  static constexpr int count = 4 / words_of<T>;
  double mean, std;

  /// Computes a pair. u is in (0, 1], turn in [0, 1).
  __device__ void pair(double u, double turn, T* values) const {
    const double radius = std * ::sqrt(-2 * ::log(u));
    double sine, cosine;
    ::sincos(2 * std::numbers::pi * turn, &sine, &cosine);
    values[0] = to_float<T>(mean + radius * cosine);
    values[1] = to_float<T>(mean + radius * sine);
  }
  __device__ void operator()(const Words& words, T (&values)[count]) const {
    if constexpr (count == 2) {
      pair(1 - unit_double(words[0], words[1]), unit_double(words[2], words[3]), values);
    } else {
      // All 32 bits of a word are used, because its smallest value limits the tail.
      for (int i = 0; i < 4; i += 2) pair((words[i] + 1.0) * 0x1p-32, words[i + 1] * 0x1p-32, values + i);
    }
  }
};

void normal(PhiloxState state, double mean, double std, const View& y) {
  visit_floating(y.dtype, [&](auto zero) { generate(state, y, Normal<decltype(zero)>{mean, std}); });
}

template <class T>
struct RandInt {
  using Element = T;
  static constexpr int count = 2;
  std::uint64_t low, range;

  __device__ void operator()(const Words& words, T (&values)[count]) const {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t scaled = __umul64hi(bits64(words[2 * i], words[2 * i + 1]), range);
      const auto v = static_cast<std::int64_t>(low + scaled);
      if constexpr (std::is_same_v<T, bool>)
        values[i] = v != 0;
      else if constexpr (std::is_arithmetic_v<T>)
        values[i] = static_cast<T>(v);
      else
        values[i] = T(static_cast<float>(static_cast<double>(v)));
    }
  }
};

void randint(PhiloxState state, std::int64_t low, std::int64_t high, const View& y) {
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  visit(y.dtype, [&](auto zero) {
    generate(state, y, RandInt<decltype(zero)>{static_cast<std::uint64_t>(low), range});
  });
}

/// Draws random keys, and numbers the indices that are sorted by them.
__global__ void __launch_bounds__(block_size)
    ticket_kernel(PhiloxState state, std::uint64_t* keys, std::int64_t* indices, std::int64_t n) {
  state = started(state);
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t c = std::int64_t{blockIdx.x} * block_size + threadIdx.x; 2 * c < n; c += step) {
    const Words words = philox(state.seed, state.offset + static_cast<std::uint64_t>(c));
    for (int k = 0; k < 2; ++k)
      if (const std::int64_t i = 2 * c + k; i < n) {
        keys[i] = bits64(words[2 * k], words[2 * k + 1]);
        indices[i] = i;
      }
  }
}

__global__ void __launch_bounds__(block_size)
    copy_kernel(const std::int64_t* from, std::int64_t* to, std::int64_t stride, std::int64_t n) {
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n; i += step) to[i * stride] = from[i];
}

// A radix sort is stable: equal keys stay in the order of their indices.
void randperm(const RandpermArgs& args, const Plan&, Workspace ws) {
  const View& y = args.y;
  const std::int64_t n = y.numel();
  if (n == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const std::size_t buffer = sort_buffer(n);
  std::size_t used = 0;
  const auto take = [&] {
    void* data = static_cast<char*>(ws.data) + used;
    used += buffer;
    return data;
  };
  auto *keys = static_cast<std::uint64_t*>(take()), *other_keys = static_cast<std::uint64_t*>(take());
  auto* other_indices = static_cast<std::int64_t*>(take());
  auto* const out = y.as<std::int64_t>();
  auto* indices = y.is_contiguous() ? out : static_cast<std::int64_t*>(take());
  ticket_kernel<<<blocks_for((n + 1) / 2, y.device), block_size, 0, stream>>>(args.state, keys, indices, n);
  check_launch();
  const Workspace scratch{static_cast<char*>(ws.data) + used, ws.bytes - used};
  const std::int64_t* sorted = sort_pairs({keys, indices}, {other_keys, other_indices}, n, 64, scratch, stream).values;
  if (sorted != out) {  // after an even number of passes, y has the result
    copy_kernel<<<blocks_for(n, y.device), block_size, 0, stream>>>(sorted, out, y.strides[0], n);
    check_launch();
  }
}

}  // namespace

const RandomKernels& random_kernels() {
  static const RandomKernels all{
      .uniform = uniform,
      .normal = normal,
      .randint = randint,
      .randperm = {random_plans().randperm.plan, randperm},
      .multinomial = multinomial,
      .multinomial_race = multinomial_race,
  };
  return all;
}

}  // namespace bytetape::cuda
