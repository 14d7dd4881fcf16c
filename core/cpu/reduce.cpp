#include <limits>

#include "bytetape/core/cpu/copy.h"
#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/sum.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/reduce.h"

namespace bytetape::cpu {
namespace {

// The number of threads must not change the bits. So the inputs of an output are cut into chunks by shape alone, and
// the partial results of chunks are combined in order.
constexpr std::int64_t chunk_elements = 16384;
constexpr std::int64_t max_partials = 4096;  // on the stack, 32 KiB
constexpr std::int64_t block_width = detail::chunk;
// Floats are summed in their compute type for this many steps (rows), or in pieces of detail::chunk (runs). These sums
// are added in double.
constexpr std::int64_t fold_every = 64;

/// A reduction of elements of T. Lanes reduce a piece, and totals combine pieces.
template <class T>
struct Sum {
  static constexpr bool is_float = std::is_floating_point_v<compute_t<T>>;
  using Lane = std::conditional_t<is_float, compute_t<T>, std::uint64_t>;
  using Total = std::conditional_t<is_float, double, std::uint64_t>;  // integers wrap around, as in PyTorch
  static constexpr Total identity = 0;
  static auto combine(const auto& a, const auto& b) { return a + b; }
  static Total reduce(const auto& lanes) { return static_cast<Total>(sum_of(lanes)); }
  template <class C>
  static C result(Total t, double divisor) {
    if constexpr (is_float)
      return static_cast<C>(t) / static_cast<C>(divisor);
    else
      return static_cast<C>(t);
  }
};

template <class T>
struct Product : Sum<T> {
  using typename Sum<T>::Total;
  using Lane = Total;  // products of a few floats can leave the range of f32 and come back
  static constexpr Total identity = 1;
  static auto combine(const auto& a, const auto& b) { return a * b; }
  static Total reduce(const auto& lanes) {
    // A copy, because Eigen starts at an aligned address: the order depends on the size alone.
    const Eigen::Array<Lane, Eigen::Dynamic, 1, 0, detail::chunk, 1> copy = lanes;
    return copy.prod();
  }
};

template <class T, bool is_max>
struct Extreme {
  using Lane = compute_t<T>;
  using Total = Lane;
  using Limits = std::numeric_limits<Lane>;
  static constexpr bool is_float = std::is_floating_point_v<Lane>;
  static constexpr Total identity =
      is_float ? (is_max ? -Limits::infinity() : Limits::infinity()) : (is_max ? Limits::lowest() : Limits::max());
  static constexpr int nan = is_float ? Eigen::PropagateNaN : Eigen::PropagateFast;
  static Total combine(Total a, Total b) {
    if constexpr (is_float)
      if (b != b) return b;
    return (is_max ? b > a : b < a) ? b : a;
  }
  template <class A, class B>
  static auto combine(const Eigen::ArrayBase<A>& a, const Eigen::ArrayBase<B>& b) {
    using Op = std::conditional_t<is_max, Eigen::internal::scalar_max_op<Lane, Lane, nan>,
                                  Eigen::internal::scalar_min_op<Lane, Lane, nan>>;
    return a.binaryExpr(b.derived(), Op());
  }
  static Total reduce(const auto& lanes) {
    if constexpr (is_max)
      return lanes.template maxCoeff<nan>();
    else
      return lanes.template minCoeff<nan>();
  }
  template <class C>
  static C result(Total t, double) {
    return static_cast<C>(t);
  }
};
template <class T>
using Max = Extreme<T, true>;
template <class T>
using Min = Extreme<T, false>;

/// The loops of a reduction: over `outputs` (x and y), and for each output over `inputs` (x). If the innermost dim of x
/// is kept, an output is a run of `width` elements, of which block_width are computed at a time.
struct Loops {
  Loop<2> outputs;
  Loop<1> inputs;
  bool by_rows = false;  // whether the innermost dim is kept
  std::int64_t width = 1, x_step = 0, y_step = 0;
  std::int64_t blocks = 1;  // blocks of a run
  std::int64_t count = 1;   // inputs of an output
  std::int64_t chunk = 1;   // inputs per chunk
  double divisor = 1;       // divisor of sums

  std::int64_t items() const { return numel(outputs.shape) * blocks; }
};

Loops make_loops(const ConstView& x, const View& y) {
  const ConstView repeated = y.expand(x.shape);
  const Loop<2> all = make_loop<2>({&x, &repeated});
  Loops loops;
  loops.outputs.data = {all.data[0], y.as<char>()};
  loops.inputs.data = {all.data[0]};
  const auto is_kept = [&](int d) { return all.strides[1][d] != 0; };
  const int last = all.shape.size() - 1;
  for (int d = 0; d <= last; ++d) {
    if (!is_kept(d)) {
      loops.inputs.shape.push_back(all.shape[d]);
      loops.inputs.strides[0].push_back(all.strides[0][d]);
    } else if (d < last) {
      loops.outputs.shape.push_back(all.shape[d]);
      for (std::size_t k = 0; k < 2; ++k) loops.outputs.strides[k].push_back(all.strides[k][d]);
    } else {
      loops.by_rows = true;
      loops.width = all.shape[d];
      loops.x_step = all.strides[0][d];
      loops.y_step = all.strides[1][d];
    }
  }
  loops.outputs.complete();
  loops.inputs.complete();
  const std::int64_t block = std::min(loops.width, block_width);
  loops.blocks = (loops.width + block_width - 1) / block_width;
  loops.count = numel(loops.inputs.shape);
  const std::int64_t partials = max_partials / block;
  loops.chunk = std::max((chunk_elements + block - 1) / block, (loops.count + partials - 1) / partials);
  return loops;
}

/// Reduces a run of inputs of one output.
template <class R, class T>
typename R::Total reduce_run(const char* p, std::int64_t step, std::int64_t n) {
  detail::Source<T> source;
  typename R::Total total = R::identity;
  for (std::int64_t at = 0; at < n; at += detail::chunk) {
    const auto values = source.load(p + at * step, step, std::min(detail::chunk, n - at));
    total = R::combine(total, R::reduce(values.template cast<typename R::Lane>()));
  }
  return total;
}

/// Reduces n rows of inputs, `step` bytes apart, into the lanes of `width` outputs.
template <class R, class T>
void reduce_rows(const char* p, std::int64_t step, std::int64_t n, std::int64_t x_step, std::int64_t width,
                 typename R::Lane* lanes) {
  Eigen::Map<Array<typename R::Lane>> sums(lanes, width);
  detail::Source<T> a, b, c, d;
  const auto row = [&](detail::Source<T>& source, std::int64_t i) {
    return source.load(p + i * step, x_step, width).template cast<typename R::Lane>();
  };
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4)  // four at a time, for fewer passes over the lanes
    sums = R::combine(sums, R::combine(R::combine(row(a, i), row(b, i + 1)), R::combine(row(c, i + 2), row(d, i + 3))));
  for (; i < n; ++i) sums = R::combine(sums, row(a, i));
}

/// Reduces one chunk of the inputs of an output block.
template <class R, class T>
void reduce_chunk(const Loops& loops, const Loop<1>& inputs, std::int64_t width, std::int64_t begin, std::int64_t end,
                  typename R::Total* totals) {
  std::fill_n(totals, width, R::identity);
  if (!loops.by_rows) {
    walk_rows(inputs, begin, end, [&](std::int64_t n, const auto& p, const auto& step) {
      *totals = R::combine(*totals, reduce_run<R, T>(p[0], step[0], n));
    });
    return;
  }
  alignas(64) typename R::Lane lanes[block_width];
  for (std::int64_t at = begin; at < end; at += fold_every) {
    std::fill_n(lanes, width, static_cast<typename R::Lane>(R::identity));
    walk_rows(inputs, at, std::min(at + fold_every, end), [&](std::int64_t n, const auto& p, const auto& step) {
      reduce_rows<R, T>(p[0], step[0], n, loops.x_step, width, lanes);
    });
    for (std::int64_t j = 0; j < width; ++j)
      totals[j] = R::combine(totals[j], static_cast<typename R::Total>(lanes[j]));
  }
}

struct Block {
  char *x, *y;
  std::int64_t width;
};
Block block_at(const Loops& loops, std::int64_t item) {
  const std::int64_t first = item % loops.blocks * block_width, at = item / loops.blocks;
  Block b{nullptr, nullptr, std::min(block_width, loops.width - first)};
  walk_rows(loops.outputs, at, at + 1, [&](std::int64_t, const auto& p, const auto&) {
    b.x = p[0] + first * loops.x_step;
    b.y = p[1] + first * loops.y_step;
  });
  return b;
}

template <class R, class Out>
void store(const Loops& loops, const Block& b, const typename R::Total* totals) {
  for (std::int64_t j = 0; j < b.width; ++j)
    *reinterpret_cast<Out*>(b.y + j * loops.y_step) =
        static_cast<Out>(R::template result<compute_t<Out>>(totals[j], loops.divisor));
}

template <class R>
void add_partial(typename R::Total* totals, const typename R::Total* partial, std::int64_t width) {
  for (std::int64_t j = 0; j < width; ++j) totals[j] = R::combine(totals[j], partial[j]);
}

/// For few outputs with many inputs: threads share the chunks of an output.
template <class R, class T, class Out>
void reduce_by_chunks(const Loops& loops, std::int64_t chunks) {
  typename R::Total partials[max_partials], totals[block_width];
  for (std::int64_t item = 0; item < loops.items(); ++item) {
    const Block b = block_at(loops, item);
    Loop<1> inputs = loops.inputs;
    inputs.data = {b.x};
    parallel_for(chunks, 2, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c)
        reduce_chunk<R, T>(loops, inputs, b.width, c * loops.chunk, std::min((c + 1) * loops.chunk, loops.count),
                           partials + c * b.width);
    });
    std::fill_n(totals, b.width, R::identity);
    for (std::int64_t c = 0; c < chunks; ++c) add_partial<R>(totals, partials + c * b.width, b.width);
    store<R, Out>(loops, b, totals);
  }
}

template <class R, class T, class Out>
void reduce_by_outputs(const Loops& loops, std::int64_t chunks) {
  const std::int64_t work = loops.count * std::min(loops.width, block_width);
  parallel_for(loops.items(), grain / std::min(grain, work), [&](std::int64_t begin, std::int64_t end) {
    typename R::Total partial[block_width], totals[block_width];
    Loop<1> inputs = loops.inputs;
    const auto one = [&](const Block& b) {
      inputs.data = {b.x};
      std::fill_n(totals, b.width, R::identity);
      for (std::int64_t c = 0; c < chunks; ++c) {
        reduce_chunk<R, T>(loops, inputs, b.width, c * loops.chunk, std::min((c + 1) * loops.chunk, loops.count),
                           partial);
        add_partial<R>(totals, partial, b.width);
      }
      store<R, Out>(loops, b, totals);
    };
    if (loops.by_rows) {
      for (std::int64_t item = begin; item < end; ++item) one(block_at(loops, item));
      return;
    }
    walk_rows(loops.outputs, begin, end, [&](std::int64_t n, const auto& p, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) one({p[0] + i * step[0], p[1] + i * step[1], 1});
    });
  });
}

template <class R, class T, class Out>
void reduce(const ConstView& x, const View& y, double divisor = 1) {
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill(R::template result<compute_t<Out>>(R::identity, divisor), y);
  Loops loops = make_loops(x, y);
  loops.divisor = divisor;
  const std::int64_t chunks = (loops.count + loops.chunk - 1) / loops.chunk;
  if (chunks > 1 && loops.items() < num_threads())
    reduce_by_chunks<R, T, Out>(loops, chunks);
  else
    reduce_by_outputs<R, T, Out>(loops, chunks);
}

template <template <class> class R>
void extreme(const ConstView& x, const View& y) {
  visit(x.dtype, [&](auto zero) {
    // A bool is a byte that is 0 or 1.
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, std::uint8_t, decltype(zero)>;
    reduce<R<T>, T, T>(x, y);
  });
}

Plan plan(const SumArgs&) { return {}; }

template <template <class> class R>
void accumulate(const SumArgs& args, const Plan&, Workspace) {
  const ConstView& x = args.x;
  const View& y = args.y;
  visit(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      reduce<R<T>, T, std::int64_t>(x, y);
    else if (y.dtype == x.dtype)
      reduce<R<T>, T, T>(x, y, args.divisor);
    else
      reduce<R<T>, T, float>(x, y, args.divisor);
  });
}

void max(const ConstView& x, const View& y) { extreme<Max>(x, y); }
void min(const ConstView& x, const View& y) { extreme<Min>(x, y); }

template <bool is_max>
void extreme_with_index(const ConstView& x, int dim, const View& values, const View& indices) {
  if (indices.numel() == 0) return;
  const std::int64_t n = x.shape[dim], step = x.strides[dim];
  ConstView first = x;
  first.shape[dim] = 1;
  visit(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto best = [&](const T* p) {
      std::int64_t at = 0;
      auto value = static_cast<compute_t<T>>(p[0]);
      for (std::int64_t i = 1; i < n && value == value; ++i) {
        const auto v = static_cast<compute_t<T>>(p[i * step]);
        if ((is_max ? v > value : v < value) || v != v) at = i, value = v;
      }
      return at;
    };
    const auto row = [&](std::int64_t outputs, const auto& p, const auto& steps) {
      for (std::int64_t i = 0; i < outputs; ++i) {
        const T* const of_output = reinterpret_cast<const T*>(p[1] + i * steps[1]);
        const std::int64_t at = best(of_output);
        *reinterpret_cast<std::int64_t*>(p[0] + i * steps[0]) = at;
        if (values.defined()) *reinterpret_cast<T*>(p[2] + i * steps[2]) = of_output[at * step];
      }
    };
    const ConstView& written = values.defined() ? static_cast<const ConstView&>(values) : first;  // a walk needs a view
    for_each_row(make_loop<3>({&indices, &first, &written}), row, std::max<std::int64_t>(grain / n, 1));
  });
}

}  // namespace

const ReduceKernels& reduce_kernels() {
  static const ReduceKernels all{
      .sum = {plan, accumulate<Sum>},
      .prod = {plan, accumulate<Product>},
      .max = max,
      .min = min,
      .argmax = extreme_with_index<true>,
      .argmin = extreme_with_index<false>,
  };
  return all;
}

}  // namespace bytetape::cpu
