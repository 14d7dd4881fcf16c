// The gradient of a bias, in one pass over gy that also applies the activation's gradient. Each block of rows gives a
// partial sum, and the partial sums are added in order. Blocks depend on the shape alone, so the number of threads does
// not change the bits.
#include "bytetape/core/cpu/activation.h"

#include <algorithm>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/activation.h"
#include "bytetape/core/kernels/pointwise.h"

namespace bytetape::cpu {
namespace {

struct RowBlocks {
  std::int64_t rows, channels, length, count;

  explicit RowBlocks(const ConstView& gy) : rows(gy.shape[0]), channels(gy.shape[1]) {
    constexpr std::int64_t elements = 16384, most = 1024;
    length = std::max({std::int64_t{32}, elements / std::max<std::int64_t>(channels, 1), (rows + most - 1) / most});
    count = (rows + length - 1) / length;
  }
};

// Out of line, so that the compiler knows which pointers do not alias. `through` may be gy or y, because each element
// is read before it is written.
template <class T, class C>
[[gnu::noinline]] void mask_and_add(std::int64_t count, const T* y, const T* gy, T* __restrict through,
                                    C* __restrict sum) {
  for (std::int64_t c = 0; c < count; ++c) {
    const auto g = static_cast<C>(gy[c]), passed = static_cast<C>(y[c]) <= 0 ? C{0} : g;
    through[c] = static_cast<T>(passed);
    sum[c] += passed;
  }
}
template <class T, class C>
[[gnu::noinline]] void add(std::int64_t count, const T* __restrict gy, C* __restrict sum) {
  for (std::int64_t c = 0; c < count; ++c) sum[c] += static_cast<C>(gy[c]);
}

/// Returns the elements of rows begin .. end - 1.
template <class T, class V>
V rows_of(const V& x, std::int64_t begin, std::int64_t end) {
  return V(x.template as<T>() + begin * x.shape[1], x.dtype, x.device, {(end - begin) * x.shape[1]}, {1});
}

template <class T, class C>
void sum_block(const BiasGradArgs& a, const RowBlocks& blocks, std::int64_t block, C* sum) {
  const std::int64_t channels = blocks.channels, begin = block * blocks.length,
                     end = std::min(blocks.rows, begin + blocks.length);
  const auto rows = [&](const auto& x) { return rows_of<T>(x, begin, end); };
  const bool is_gelu = a.activation == Activation::gelu_tanh;
  if (is_gelu) pointwise_kernels().gelu_tanh_backward(rows(a.saved), rows(a.gy), rows(a.through));
  const ConstView& summed = is_gelu ? a.through : a.gy;
  std::fill_n(sum, channels, C{0});
  for (std::int64_t at = begin * channels; at < end * channels; at += channels)
    if (a.activation == Activation::relu)
      mask_and_add(channels, a.saved.as<T>() + at, a.gy.as<T>() + at, a.through.as<T>() + at, sum);
    else
      add(channels, summed.as<T>() + at, sum);
}

template <class C>
void add_blocks(const RowBlocks& blocks, const C* partials, const View& gb) {
  for (std::int64_t first = 0; first < blocks.channels; first += detail::chunk) {
    const std::int64_t count = std::min(detail::chunk, blocks.channels - first);
    double sum[detail::chunk] = {};
    for (std::int64_t block = 0; block < blocks.count; ++block)
      for (std::int64_t c = 0; c < count; ++c)
        sum[c] += static_cast<double>(partials[block * blocks.channels + first + c]);
    visit_floating(gb.dtype, [&](auto zero) {
      using Out = decltype(zero);
      for (std::int64_t c = 0; c < count; ++c)
        gb.as<Out>()[first + c] = static_cast<Out>(static_cast<compute_t<Out>>(sum[c]));
    });
  }
}

Plan plan(const BiasGradArgs& a) {
  const RowBlocks blocks(a.gy);
  return {.workspace = static_cast<std::size_t>(blocks.count * blocks.channels) * size_of(accumulated(a.gy.dtype))};
}

void bias_grad(const BiasGradArgs& a, const Plan&, Workspace ws) {
  const RowBlocks blocks(a.gy);
  visit_floating(a.gy.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    auto* partials = static_cast<C*>(ws.data);
    const std::int64_t work = std::max<std::int64_t>(blocks.length * blocks.channels, 1);
    parallel_for(blocks.count, grain / work, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block)
        sum_block<T>(a, blocks, block, partials + block * blocks.channels);
    });
    add_blocks(blocks, partials, a.gb);
  });
}

}  // namespace

void activate(Activation activation, const ConstView& z, const View& y) {
  if (activation == Activation::relu) pointwise_kernels().relu(z, y);
  if (activation == Activation::gelu_tanh) pointwise_kernels().gelu_tanh(z, y);
}

Conv2dWeightGradArgs through_activation(Conv2dWeightGradArgs a) {
  if (a.activation == Activation::none) return a;
  pointwise_kernels().relu_backward(a.y, a.gy, a.masked);
  a.gy = a.masked;
  a.activation = Activation::none;
  return a;
}

const ActivationKernels& activation_kernels() {
  static const ActivationKernels all{.bias_grad = {plan, bias_grad}};
  return all;
}

}  // namespace bytetape::cpu
