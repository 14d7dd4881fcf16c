// One launch updates every parameter of a dtype: slots travel in the kernel's arguments, and each block takes one chunk
// of one of them, found in a table of where their chunks begin.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bytetape/cuda/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// A parameter, its gradient, and what is kept of it from step to step: dense memory in one order.
template <class T, int kept>
struct Memory {
  T* parameter;
  const T* gradient;
  T* states[kept];
  std::int64_t size;
};

// A rule says how an element moves, in the words and the order of core/cpu/optimizer.cpp.

template <class T, bool has_momentum>
struct Sgd {
  using Element = T;
  using C = compute_t<T>;
  static constexpr int states = has_momentum ? 1 : 0;
  struct Slot : Memory<T, 1> {
    bool is_first;
  };
  C lr, decay, keep, take;
  bool nesterov;

  explicit Sgd(const SgdParams& p)
      : lr(static_cast<C>(p.lr)),
        decay(static_cast<C>(p.weight_decay)),
        keep(static_cast<C>(p.momentum)),
        take(static_cast<C>(1 - p.dampening)),
        nesterov(p.nesterov) {}
  __device__ C updated(const Slot& slot, C x, C gradient, C (&state)[1]) const {
    C step = gradient + decay * x;
    if constexpr (has_momentum) {
      const C moved = slot.is_first ? step : keep * state[0] + take * step;  // whatever a first step read is dropped
      state[0] = moved;
      step = nesterov ? step + keep * moved : moved;
    }
    return x - lr * step;
  }
};

template <class T>
struct Adam {
  using Element = T;
  using C = compute_t<T>;
  static constexpr int states = 2;
  struct Slot : Memory<T, 2> {
    C rate, root2;
  };
  C keep, decay, take1, keep2, take2, eps;

  explicit Adam(const AdamParams& p)
      : keep(static_cast<C>(p.decoupled ? 1 - p.lr * p.weight_decay : 1)),
        decay(static_cast<C>(p.decoupled ? 0 : p.weight_decay)),
        take1(static_cast<C>(1 - p.beta1)),
        keep2(static_cast<C>(p.beta2)),
        take2(static_cast<C>(1 - p.beta2)),
        eps(static_cast<C>(p.eps)) {}
  __device__ C updated(const Slot& slot, C x, C gradient, C (&state)[2]) const {
    const C g = gradient + decay * x;
    const C m = state[0] + take1 * (g - state[0]);
    const C v = keep2 * state[1] + take2 * (g * g);
    state[0] = m;
    state[1] = v;
    return keep * x - slot.rate * (m / (::sqrt(v) / slot.root2 + eps));
  }
};

/// What one launch updates. Models of few parameters take a small one: arguments are copied at every launch.
template <class Rule, int most>
struct Batch {
  Rule rule;
  std::int64_t chunk;  // elements of a block, whole vectors
  int count = 0;
  std::uint32_t first[most];  // the first block of each slot
  typename Rule::Slot slots[most];

  Batch(const Rule& rule, std::int64_t chunk) : rule(rule), chunk(chunk) {}
  template <int more>
  explicit Batch(const Batch<Rule, more>& b) : rule(b.rule), chunk(b.chunk), count(b.count) {
    std::copy_n(b.first, count, first);
    std::copy_n(b.slots, count, slots);
  }
};

/// Elements [begin, end) of a slot, `lanes` at a time; what is left at the end is not.
template <int lanes, class Rule>
__device__ void update(const Rule& rule, const typename Rule::Slot& slot, std::int64_t begin, std::int64_t end) {
  using T = typename Rule::Element;
  using C = compute_t<T>;
  using Vector = detail::Lanes<T, lanes>;
  constexpr int states = Rule::states, at_least_one = states ? states : 1;
  for (std::int64_t i = begin + threadIdx.x * lanes; i + lanes <= end; i += block_size * lanes) {
    auto x = *reinterpret_cast<const Vector*>(slot.parameter + i);
    const auto gradient = *reinterpret_cast<const Vector*>(slot.gradient + i);
    Vector state[at_least_one];
    for (int s = 0; s < states; ++s) state[s] = *reinterpret_cast<const Vector*>(slot.states[s] + i);
    for (int k = 0; k < lanes; ++k) {
      C wide[at_least_one];
      for (int s = 0; s < states; ++s) wide[s] = static_cast<C>(state[s].values[k]);
      x.values[k] =
          static_cast<T>(rule.updated(slot, static_cast<C>(x.values[k]), static_cast<C>(gradient.values[k]), wide));
      for (int s = 0; s < states; ++s) state[s].values[k] = static_cast<T>(wide[s]);
    }
    for (int s = 0; s < states; ++s) *reinterpret_cast<Vector*>(slot.states[s] + i) = state[s];
    *reinterpret_cast<Vector*>(slot.parameter + i) = x;
  }
}

template <class Rule, int most>
__global__ void __launch_bounds__(block_size) update_kernel(const __grid_constant__ Batch<Rule, most> batch) {
  int at = 0;  // the last slot that begins at this block or before
  for (int end = batch.count; end - at > 1;) {
    const int middle = (at + end) / 2;
    (batch.first[middle] <= blockIdx.x ? at : end) = middle;
  }
  const typename Rule::Slot& slot = batch.slots[at];
  const std::int64_t begin = (blockIdx.x - batch.first[at]) * batch.chunk,
                     end = std::min(begin + batch.chunk, slot.size);
  constexpr int lanes = 16 / sizeof(typename Rule::Element);
  auto addresses = reinterpret_cast<std::uintptr_t>(slot.parameter) | reinterpret_cast<std::uintptr_t>(slot.gradient);
  for (int s = 0; s < Rule::states; ++s) addresses |= reinterpret_cast<std::uintptr_t>(slot.states[s]);
  const std::int64_t whole = addresses % 16 == 0 ? begin + (end - begin) / lanes * lanes : begin;
  update<lanes>(batch.rule, slot, begin, whole);
  update<1>(batch.rule, slot, whole, end);
}

template <class Rule, int most>
void launch(const Batch<Rule, most>& batch, std::int64_t blocks, cudaStream_t stream) {
  static_assert(sizeof batch <= 32764, "more than a kernel's arguments hold");
  update_kernel<<<static_cast<unsigned>(blocks), block_size, 0, stream>>>(batch);
  check_launch();
}

/// Moves the slots of the rule's dtype; make_slot() tells the kernel of one.
template <class Rule, class Slot, class F>
void update_all(std::span<const Slot> slots, const Rule& rule, F&& make_slot) {
  const auto is_ours = [](const Slot& s) {
    return s.parameter.dtype == dtype_of<typename Rule::Element> && s.parameter.numel() > 0;
  };
  std::int64_t total = 0;
  for (const Slot& s : slots) total += is_ours(s) ? s.parameter.numel() : 0;
  if (total == 0) return;
  const Device device = slots[0].parameter.device;
  const cudaStream_t stream = stream_of(device);
  // Small models are spread over all processors; for large ones there is less to begin and to look up.
  const std::int64_t chunk = total < std::int64_t{processors(device)} * 8192 ? 1024 : 4096;
  constexpr int most = 512;
  Batch<Rule, most> batch(rule, chunk);
  std::int64_t blocks = 0;
  const auto flush = [&] {
    if (batch.count <= 16)
      launch(Batch<Rule, 16>(batch), blocks, stream);
    else if (batch.count <= 128)
      launch(Batch<Rule, 128>(batch), blocks, stream);
    else
      launch(batch, blocks, stream);
    batch.count = 0;
    blocks = 0;
  };
  for (const Slot& s : slots) {
    if (!is_ours(s)) continue;
    const std::int64_t chunks = (s.parameter.numel() + chunk - 1) / chunk;
    const bool is_full = batch.count == most || blocks + chunks > std::numeric_limits<int>::max();
    if (is_full) flush();
    batch.first[batch.count] = static_cast<std::uint32_t>(blocks);
    batch.slots[batch.count] = make_slot(s);
    ++batch.count;
    blocks += chunks;
  }
  flush();
}

/// f with a zero of each floating type.
template <class F>
void for_each_floating(F&& f) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) visit_floating(t, f);
}

void sgd(std::span<const SgdSlot> slots, const SgdParams& p) {
  for_each_floating([&](auto zero) {
    using T = decltype(zero);
    const auto update = [&](auto rule) {
      using Slot = typename decltype(rule)::Slot;
      update_all(slots, rule, [](const SgdSlot& s) {
        T* buffer = decltype(rule)::states ? s.momentum_buffer.as<T>() : nullptr;
        return Slot{{s.parameter.as<T>(), s.gradient.as<T>(), {buffer}, s.parameter.numel()}, s.first_step};
      });
    };
    p.momentum != 0 ? update(Sgd<T, true>(p)) : update(Sgd<T, false>(p));
  });
}

void adam(std::span<const AdamSlot> slots, const AdamParams& p) {
  for_each_floating([&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    std::int64_t step = 0;  // whose corrections these are: as a rule all slots'
    C rate = 0, root2 = 0;
    update_all(slots, Adam<T>(p), [&](const AdamSlot& s) {
      if (s.step != step) {
        step = s.step;
        const auto n = static_cast<double>(step);
        rate = static_cast<C>(p.lr / (1 - std::pow(p.beta1, n)));
        root2 = static_cast<C>(std::sqrt(1 - std::pow(p.beta2, n)));
      }
      return typename Adam<T>::Slot{
          {s.parameter.as<T>(), s.gradient.as<T>(), {s.exp_avg.as<T>(), s.exp_avg_sq.as<T>()}, s.parameter.numel()},
          rate,
          root2};
    });
  });
}

}  // namespace

OptimizerKernels optimizer_kernels() {
  return {
      .sgd = sgd,
      .adam = adam,
  };
}

}  // namespace bytetape::cuda
