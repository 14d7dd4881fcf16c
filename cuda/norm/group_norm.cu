// Forward of group normalisation, and its kernel table.
#include "bytetape/cuda/norm/group_norm.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <class T>
struct Forward {
  using C = compute_t<T>;
  const T* x;
  const C *weight, *bias;
  C eps;
  T* y;
  C *mean, *rstd;
};

// As in layer_norm.cu, means are of differences from the group's first element, its pivot. A block reads a group three
// times. The second and third time, it is in the cache.
template <class T, int lanes, class G, class C = compute_t<T>>
__global__ void __launch_bounds__(wide_block) group_norm_kernel(G groups, Forward<T> f) {
  const std::int64_t vectors = groups.elements() / lanes;
  const C count = static_cast<C>(groups.elements());
  for (std::int64_t group = blockIdx.x; group < groups.count; group += gridDim.x) {
    const std::int64_t begin = groups.begin(group), first_channel = groups.first_channel(group);
    const T* const x = f.x + begin;
    const C pivot = widened(x[0]);
    C sum[1] = {};
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      const auto v = load<lanes>(x + groups.template neighbours<lanes>(i).at);
      for (int k = 0; k < lanes; ++k) sum[0] += widened(v.values[k]) - pivot;
    }
    sum_over_row(sum);
    const C distance = sum[0] / count;
    C m2[1] = {};
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      const auto v = load<lanes>(x + groups.template neighbours<lanes>(i).at);
      for (int k = 0; k < lanes; ++k) {
        const C d = widened(v.values[k]) - pivot - distance;
        m2[0] += d * d;
      }
    }
    sum_over_row(m2);
    const C r = 1 / ::sqrt(m2[0] / count + f.eps);
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      const Neighbours here = groups.template neighbours<lanes>(i);
      auto v = load<lanes>(x + here.at);
      for (int k = 0; k < lanes; ++k) {
        const std::int64_t channel = first_channel + G::channel(here, k);
        const C w = f.weight ? f.weight[channel] : C(1), b = f.bias ? f.bias[channel] : C(0);
        v.values[k] = narrowed<T>((widened(v.values[k]) - pivot - distance) * r * w + b);
      }
      v.store(f.y + begin + here.at);
    }
    if (threadIdx.x == 0) {
      f.mean[group] = pivot + distance;
      f.rstd[group] = r;
    }
  }
}

void group_norm(const GroupNormArgs& a) {
  if (a.x.numel() == 0) return;
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Forward<T> f{a.x.as<T>(), a.weight.as<C>(), a.bias.as<C>(), static_cast<C>(a.eps),
                       a.y.as<T>(), a.mean.as<C>(),   a.rstd.as<C>()};
    with_groups<T>(a.x, a.groups, {&a.x, &a.y}, [&](auto lanes, const auto& groups) {
      group_norm_kernel<T, lanes>
          <<<group_blocks(groups.count), group_threads(groups.elements() / lanes), 0, stream_of(a.x.device)>>>(groups,
                                                                                                               f);
    });
  });
  check_launch();
}

}  // namespace

const GroupNormKernels& group_norm_kernels() {
  static const GroupNormKernels all{
      .group_norm = group_norm,
      .group_norm_backward = {group_norm_plans().group_norm_backward.plan, group_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cuda
