// One launch updates all parameters of a dtype. Slots are kernel arguments. A block updates one chunk of a parameter,
// which it finds in a table of the parameters' first chunks.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "bytetape/cuda/optim/clip.h"
#include "bytetape/cuda/optim/lerp.cuh"
#include "bytetape/cuda/optim/muon.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/runtime/slots.cuh"
#include "bytetape/cuda/runtime/step_answer.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// A parameter with its gradient, its 16-bit autocast copy if any, and its optimizer state: dense memory in one order.
/// The gradient is of type T, or has 16 bits if T is float.
template <class T, int kept>
struct Memory {
  T* parameter;
  const void* gradient;
  T* states[kept];
  void* shadow;
  std::int64_t size;
  std::int64_t* skipped;
  int number;  // index of its step params, in the launch or in replay_params
  bool is_shadow_f16;
  DType gradient_dtype;
};

// A rule updates an element by its step params, with the same operations in the same order as core/cpu/optimizer.cpp.
// It states which of two products is fused with their sum. If the compiler chose, vectors and single elements could get
// different bits.

template <class T>
struct Sgd {
  using Element = T;
  using C = compute_t<T>;
  using StepParams = SgdStepParams;
  static constexpr int states = 1, room = 1;
  C lr, decay, keep, take;
  bool is_nesterov, is_first;

  __device__ explicit Sgd(const SgdStepParams& p)
      : lr(static_cast<C>(p.lr)),
        decay(static_cast<C>(p.weight_decay)),
        keep(static_cast<C>(p.momentum)),
        take(static_cast<C>(1 - p.dampening)),
        is_nesterov(p.is_nesterov != 0),
        is_first(p.step == 1) {}
  __device__ C updated(C x, C gradient, C (&state)[room]) const {
    C step = gradient + decay * x;
    if (keep != 0) {
      const C moved = is_first ? step : ::fma(keep, state[0], take * step);  // a first step ignores the state
      state[0] = moved;
      step = is_nesterov ? step + keep * moved : moved;
    }
    return x - lr * step;
  }
};

template <class T>
struct Adam {
  using Element = T;
  using C = compute_t<T>;
  using StepParams = AdamStepParams;
  static constexpr int states = 2, room = 2;
  C keep, decay, take1, keep2, take2, rate, root2, eps;

  __device__ explicit Adam(const AdamStepParams& p)
      : keep(static_cast<C>(p.keep)),
        decay(static_cast<C>(p.weight_decay)),
        take1(static_cast<C>(1 - p.beta1)),
        keep2(static_cast<C>(p.beta2)),
        take2(static_cast<C>(1 - p.beta2)),
        rate(static_cast<C>(p.rate)),
        root2(static_cast<C>(p.root2)),
        eps(static_cast<C>(p.eps)) {}
  __device__ C updated(C x, C gradient, C (&state)[room]) const {
    const C g = gradient + decay * x;
    const C m = state[0] + take1 * (g - state[0]);
    const C v = ::fma(keep2, state[1], take2 * (g * g));
    state[0] = m;
    state[1] = v;
    return ::fma(keep, x, -(rate * (m / (::sqrt(v) / root2 + eps))));
  }
};

template <class T>
struct Rmsprop {
  using Element = T;
  using C = compute_t<T>;
  using StepParams = RmspropStepParams;
  static constexpr int states = 3, room = 3;
  C lr, decay, keep, take, eps, inertia;
  bool is_centered;

  __device__ explicit Rmsprop(const RmspropStepParams& p)
      : lr(static_cast<C>(p.lr)),
        decay(static_cast<C>(p.weight_decay)),
        keep(static_cast<C>(p.alpha)),
        take(static_cast<C>(1 - p.alpha)),
        eps(static_cast<C>(p.eps)),
        inertia(static_cast<C>(p.momentum)),
        is_centered(p.is_centered != 0) {}
  __device__ C updated(C x, C gradient, C (&state)[room]) const {
    const C g = gradient + decay * x;
    C square = ::fma(keep, state[0], take * (g * g));
    state[0] = square;
    if (is_centered) {
      const C mean = state[2] + take * (g - state[2]);
      state[2] = mean;
      square = ::fma(-mean, mean, square);
    }
    C step = g / (::sqrt(square) + eps);
    if (inertia != 0) state[1] = step = ::fma(inertia, state[1], step);
    return x - lr * step;
  }
};

template <class T, class Params = EmaStepParams>
struct Ema {
  using Element = T;
  using C = compute_t<T>;
  using StepParams = Params;
  static constexpr int states = 0, room = 1;
  C weight;

  __device__ explicit Ema(const EmaStepParams& p) : weight(static_cast<C>(p.weight)) {}
  __device__ explicit Ema(const MuonStepParams& p) : weight(static_cast<C>(1 - p.momentum)) {}
  __device__ C updated(C average, C next, C (&)[room]) const { return lerp(average, next, weight); }
};

/// Moves the parameter along the direction, which is in place of the gradient.
template <class T>
struct Muon {
  using Element = T;
  using C = compute_t<T>;
  using StepParams = MuonStepParams;
  static constexpr int states = 0, room = 1;
  C lr, keep;

  __device__ explicit Muon(const MuonStepParams& p) : lr(static_cast<C>(p.lr)), keep(static_cast<C>(p.keep)) {}
  __device__ C updated(C x, C direction, C (&)[room]) const { return ::fma(keep, x, -(lr * direction)); }
};

/// The arguments of one launch. Models with few parameters use a small Batch, because arguments are copied at each
/// launch.
template <class Rule, int most>
struct Batch {
  using Slot = Memory<typename Rule::Element, Rule::room>;
  static constexpr int most_step_params = most <= 16 ? 8 : 24;
  std::int64_t chunk;                              // elements per block, a whole number of vectors
  StepAnswer answer{};                             // if it says so, nothing is written
  const float* found_inf;                          // a gradient scaler's flag: if set, nothing is written; or null
  const typename Rule::StepParams* replay_params;  // step params of all slots, or null
  typename Rule::StepParams step_params[most_step_params];  // if replay_params is null: those of this launch
  int step_param_count = 0, count = 0;
  std::uint32_t first[most];  // the first block of each slot
  Slot slots[most];

  Batch(std::int64_t chunk, const float* found_inf, const typename Rule::StepParams* replay_params)
      : chunk(chunk), found_inf(found_inf), replay_params(replay_params) {}
  template <int more>
  explicit Batch(const Batch<Rule, more>& b)
      : chunk(b.chunk),
        answer(b.answer),
        found_inf(b.found_inf),
        replay_params(b.replay_params),
        step_param_count(b.step_param_count),
        count(b.count) {
    std::copy_n(b.step_params, step_param_count, step_params);
    std::copy_n(b.first, count, first);
    std::copy_n(b.slots, count, slots);
  }
  /// Returns the index of the step params, usually the last. most_step_params if there is no room.
  int number_of(const typename Rule::StepParams& params) {
    for (int i = step_param_count; i-- > 0;)
      if (step_params[i] == params) return i;
    if (step_param_count == most_step_params) return most_step_params;
    step_params[step_param_count] = params;
    return step_param_count++;
  }
};

/// Writes n elements of an autocast copy.
template <class Shadow, int n, class T>
__device__ void write_shadow(void* shadow, std::int64_t i, const T (&x)[n]) {
  Packed<Shadow, n> narrow;
  for (int k = 0; k < n; ++k) narrow.values[k] = narrowed<Shadow>(x[k]);
  store_whole(narrow, static_cast<Shadow*>(shadow) + i);
}

/// Reads n elements of type G of a gradient.
template <class G, int n, class C>
__device__ void read_gradient(const void* gradient, std::int64_t i, C (&wide)[n]) {
  const auto g = load<n>(static_cast<const G*>(gradient) + i);
  for (int k = 0; k < n; ++k) wide[k] = widened(g.values[k]);
}

/// Updates elements [begin, end) of a slot, `lanes` at a time, without a remainder at the end. `skips` is used last, so
/// that nothing waits for its load. States that the slot lacks are ignored.
template <int lanes, class Rule, class Slot>
__device__ void update(const Rule& rule, const Slot& slot, std::int64_t begin, std::int64_t end, unsigned skips) {
  using T = typename Rule::Element;
  using C = compute_t<T>;
  constexpr int states = Rule::states;
  for (std::int64_t i = begin + threadIdx.x * lanes; i + lanes <= end; i += block_size * lanes) {
    auto x = load_once<lanes>(slot.parameter + i);
    Packed<T, lanes> state[Rule::room]{};
    for (int s = 0; s < states; ++s)
      if (slot.states[s]) state[s] = load_once<lanes>(slot.states[s] + i);
    C gradient[lanes];  // last, because the other loads need not wait for its type
    if (std::is_same_v<T, float> && slot.gradient_dtype == DType::bf16)
      read_gradient<BFloat16>(slot.gradient, i, gradient);
    else if (std::is_same_v<T, float> && slot.gradient_dtype == DType::f16)
      read_gradient<Half>(slot.gradient, i, gradient);
    else
      read_gradient<T>(slot.gradient, i, gradient);
    for (int k = 0; k < lanes; ++k) {
      C wide[Rule::room];
      for (int s = 0; s < states; ++s) wide[s] = widened(state[s].values[k]);
      x.values[k] = narrowed<T>(rule.updated(widened(x.values[k]), gradient[k], wide));
      for (int s = 0; s < states; ++s) state[s].values[k] = narrowed<T>(wide[s]);
    }
    if (skips) return;
    for (int s = 0; s < states; ++s)
      if (slot.states[s]) store_once(state[s], slot.states[s] + i);
    store_whole(x, slot.parameter + i);
    if constexpr (std::is_same_v<T, float>)
      if (slot.shadow)
        slot.is_shadow_f16 ? write_shadow<Half>(slot.shadow, i, x.values)
                           : write_shadow<BFloat16>(slot.shadow, i, x.values);
  }
}

/// Whether every chunk of a slot can be accessed in vectors. `&` avoids branches.
template <class Rule, class Slot>
__device__ bool packs(const Slot& slot) {
  bool all = is_aligned(slot.parameter) & is_aligned(slot.gradient) & is_aligned(slot.shadow, 8);
  for (int s = 0; s < Rule::states; ++s) all &= is_aligned(slot.states[s]);
  return all;
}

/// Returns the step params of a slot. With a gradient scaler, one thread computes them for the block, because that
/// takes some 100 instructions in f64. A skipped step changes `skipped` at the same time, but then no result is
/// written.
template <class Rule, int most, class Slot>
__device__ typename Rule::StepParams step_params_of(const Batch<Rule, most>& batch, const Slot& slot) {
  const typename Rule::StepParams& given =
      batch.replay_params ? batch.replay_params[slot.number] : batch.step_params[slot.number];
  if (!batch.found_inf) return given;
  static_assert(std::is_trivially_default_constructible_v<typename Rule::StepParams>,
                "shared memory is not initialised");
  __shared__ typename Rule::StepParams taken;
  if (threadIdx.x == 0) taken = after_skips(given, slot.skipped ? *slot.skipped : 0);
  __syncthreads();
  return taken;
}

template <class Rule, int most>
__global__ void __launch_bounds__(block_size) update_kernel(const __grid_constant__ Batch<Rule, most> batch) {
  const unsigned is_pending = batch.answer.skips();
  unsigned skips = is_pending;
  if (batch.found_inf) skips |= *batch.found_inf != 0;
  const int at = slot_of(batch.first, batch.count, blockIdx.x);
  const auto& slot = batch.slots[at];
  const Rule rule(step_params_of(batch, slot));
  const std::int64_t begin = (blockIdx.x - batch.first[at]) * batch.chunk,
                     end = std::min(begin + batch.chunk, slot.size);
  constexpr int lanes = 16 / sizeof(typename Rule::Element);
  const std::int64_t whole = packs<Rule>(slot) ? begin + (end - begin) / lanes * lanes : begin;
  update<lanes>(rule, slot, begin, whole, skips);
  update<1>(rule, slot, whole, end, skips);
  if (skips && slot.skipped && begin == 0 && threadIdx.x == 0) ++*slot.skipped;
  batch.answer.leave(is_pending);
}

template <class Rule, int most>
void launch(const Batch<Rule, most>& batch, std::int64_t blocks, cudaStream_t stream) {
  static_assert(sizeof batch <= 32764, "more than a kernel's arguments hold");
  update_kernel<<<static_cast<unsigned>(blocks), block_size, 0, stream>>>(batch);
  check_launch();
}

/// A range of slots.
struct Range {
  std::size_t begin, end;
};

/// Updates the slots of a range that have the rule's dtype. states_of() returns the states of a slot.
template <class Rule, class Slot, class F>
void update_all(std::span<const Slot> slots, Range range, const OptimizerParams<typename Rule::StepParams>& p,
                StepLaunches& step, F&& states_of) {
  using T = typename Rule::Element;
  const auto is_ours = [](const Slot& s) { return s.parameter.dtype == dtype_of<T> && s.parameter.numel() > 0; };
  std::int64_t total = 0;
  for (const Slot& s : slots) total += is_ours(s) ? s.parameter.numel() : 0;
  if (total == 0) return;
  const Device device = slots[0].parameter.device;
  const cudaStream_t stream = stream_of(device);
  // Small models need many blocks. For large ones, large chunks lower the overhead per block.
  const std::int64_t chunk = total < std::int64_t{processors(device)} * 8192 ? 1024 : 4096;
  constexpr int most = Rule::states > 2 ? 384 : 448;  // a kernel's arguments hold as many
  using All = Batch<Rule, most>;
  All batch(chunk, p.found_inf, p.replay_params);
  std::int64_t blocks = 0;
  const auto flush = [&] {
    batch.answer = step.next();
    if (batch.count <= 16 && batch.step_param_count <= Batch<Rule, 16>::most_step_params)
      launch(Batch<Rule, 16>(batch), blocks, stream);
    else if (batch.count <= 128)
      launch(Batch<Rule, 128>(batch), blocks, stream);
    else
      launch(batch, blocks, stream);
    batch.count = batch.step_param_count = 0;
    blocks = 0;
  };
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const Slot& s = slots[i];
    if (!is_ours(s)) continue;
    const std::int64_t chunks = (s.parameter.numel() + chunk - 1) / chunk;
    int number = p.replay_params ? static_cast<int>(i) : batch.number_of(p.step_params[i]);
    const bool is_full = batch.count == most || blocks + chunks > std::numeric_limits<int>::max() ||
                         (!p.replay_params && number == All::most_step_params);
    if (is_full) {
      flush();
      if (!p.replay_params) number = batch.number_of(p.step_params[i]);
    }
    batch.first[batch.count] = static_cast<std::uint32_t>(blocks);
    typename All::Slot& slot = batch.slots[batch.count];
    slot = {
        s.parameter.template as<T>(), s.gradient.data(), {}, s.shadow.data(), s.parameter.numel(), s.skipped, number,
        s.shadow.dtype == DType::f16, s.gradient.dtype};
    states_of(s, slot.states);
    ++batch.count;
    blocks += chunks;
  }
  if (batch.count > 0) flush();
}

/// Calls f(zero, range, step) with a zero of each floating type: first for the slots that are not late, then for those
/// that are. All launches belong to one step.
template <class Slot, class Params, class F>
void take_step(std::span<const Slot> slots, const Params& p, StepLaunches::Kind kind, F&& f) {
  if (slots.empty()) return;
  StepLaunches step(slots[0].parameter.device, kind, p.faults_seen);
  const std::size_t late = std::min(p.late.first, slots.size());
  for (const Range range : {Range{0, late}, Range{late, slots.size()}}) {
    if (range.begin == range.end) continue;
    if (range.begin == late) p.late.wait();
    for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
      visit_floating(t, [&](auto zero) { f(zero, range, step); });
  }
}

void sgd(std::span<const SgdSlot> slots, const SgdParams& p) {
  take_step(slots, p, StepLaunches::Kind::step, [&](auto zero, Range range, StepLaunches& step) {
    using T = decltype(zero);
    update_all<Sgd<T>>(slots, range, p, step,
                       [](const SgdSlot& s, T*(&states)[1]) { states[0] = s.momentum_buffer.as<T>(); });
  });
}

void adam(std::span<const AdamSlot> slots, const AdamParams& p) {
  take_step(slots, p, StepLaunches::Kind::step, [&](auto zero, Range range, StepLaunches& step) {
    using T = decltype(zero);
    update_all<Adam<T>>(slots, range, p, step, [](const AdamSlot& s, T*(&states)[2]) {
      states[0] = s.exp_avg.as<T>();
      states[1] = s.exp_avg_sq.as<T>();
    });
  });
}

void rmsprop(std::span<const RmspropSlot> slots, const RmspropParams& p) {
  take_step(slots, p, StepLaunches::Kind::step, [&](auto zero, Range range, StepLaunches& step) {
    using T = decltype(zero);
    update_all<Rmsprop<T>>(slots, range, p, step, [](const RmspropSlot& s, T*(&states)[3]) {
      states[0] = s.square_avg.as<T>();
      states[1] = s.momentum_buffer.as<T>();
      states[2] = s.grad_avg.as<T>();
    });
  });
}

void muon(std::span<const MuonSlot> slots, const MuonParams& p) {
  std::vector<OptimizerSlot> buffers, moved;  // buffers count no skips, because the parameters do
  for (const MuonSlot& s : slots) {
    buffers.push_back({.parameter = s.momentum_buffer, .gradient = s.gradient});
    moved.push_back({.parameter = s.parameter, .gradient = s.direction, .shadow = s.shadow, .skipped = s.skipped});
  }
  take_step(slots, p, StepLaunches::Kind::step, [&](auto zero, Range range, StepLaunches& step) {
    using T = decltype(zero);
    const auto no_states = [](const OptimizerSlot&, T*(&)[1]) {};
    update_all<Ema<T, MuonStepParams>>(std::span<const OptimizerSlot>(buffers), range, p, step, no_states);
    update_all<Muon<T>>(std::span<const OptimizerSlot>(moved), range, p, step, no_states);
  });
}

void ema(std::span<const OptimizerSlot> slots, const EmaParams& p) {
  take_step(slots, p, StepLaunches::Kind::other, [&](auto zero, Range range, StepLaunches& step) {
    using T = decltype(zero);
    update_all<Ema<T>>(slots, range, p, step, [](const OptimizerSlot&, T*(&)[1]) {});
  });
}

}  // namespace

const OptimizerKernels& optimizer_kernels() {
  static const OptimizerKernels all{
      .sgd = sgd,
      .adam = adam,
      .rmsprop = rmsprop,
      .muon = muon,
      .muon_direction = {optimizer_plans().muon_direction.plan, muon_direction},
      .muon_polynomial = muon_polynomial,
      .ema = ema,
      .clip_grad_value = clip_grad_value,
      .clip_grad_norm = {optimizer_plans().clip_grad_norm.plan, clip_grad_norm},
  };
  return all;
}

}  // namespace bytetape::cuda
