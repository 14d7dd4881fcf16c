// Gradients of group normalisation. With h = (x - mean) rstd, the first pass sums gy and gy h over the pixels of each
// channel of each image. Sums weighted over a group's channels give the group's terms in gx. Sums over the images give
// gb and gw.
#include "bytetape/cuda/norm/group_norm.cuh"
#include "bytetape/cuda/pointwise/columns.cuh"

namespace bytetape::cuda {
namespace {

template <class T>
struct BackwardInputs {
  using C = compute_t<T>;
  const T *x, *gy;
  const C *weight, *mean, *rstd;
};

/// Two rows of channels per image: sums of gy h, then of gy.
template <class C>
struct ChannelSums {
  C* data;
  std::int64_t channels;
  __device__ C* products(std::int64_t image) const { return data + image * 2 * channels; }
  __device__ C* sums(std::int64_t image) const { return products(image) + channels; }
};

/// A warp sums a channel of an image.
template <class T, int lanes, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size)
    plane_sums_kernel(Groups<false> groups, BackwardInputs<T> in, ChannelSums<C> out) {
  constexpr int warp = 32, warps = block_size / warp;
  const std::int64_t planes = groups.count / groups.groups * groups.channels, vectors = groups.pixels / lanes;
  const int lane = threadIdx.x % warp;
  for (std::int64_t plane = std::int64_t{blockIdx.x} * warps + threadIdx.x / warp; plane < planes;
       plane += std::int64_t{gridDim.x} * warps) {
    const std::int64_t begin = plane * groups.pixels, group = quotient(plane, groups.of_group);
    const C center = in.mean[group], r = in.rstd[group];
    C sums[2] = {};  // of gy h, and of gy
    for (std::int64_t i = lane; i < vectors; i += warp) {
      const auto x = load<lanes>(in.x + begin + i * lanes), gy = load<lanes>(in.gy + begin + i * lanes);
      for (int k = 0; k < lanes; ++k) {
        const C g = widened(gy.values[k]);
        sums[0] += g * ((widened(x.values[k]) - center) * r);
        sums[1] += g;
      }
    }
    reduce_warp(Plus(), sums);
    if (lane != 0) continue;
    const std::int64_t image = quotient(plane, groups.channels), channel = plane - image * groups.channels;
    out.products(image)[channel] = sums[0];
    out.sums(image)[channel] = sums[1];
  }
}

constexpr int across = 16, along = 32;  // threads side by side over adjacent channels, and over pixels

/// A block sums some adjacent channels of an image.
template <class T, class C = compute_t<T>>
__global__ void __launch_bounds__(across* along)
    channel_sums_kernel(Groups<true> groups, BackwardInputs<T> in, ChannelSums<C> out) {
  __shared__ C shared[2][along][across];
  const std::int64_t tiles = (groups.channels + across - 1) / across, image = quotient(blockIdx.x, tiles),
                     channel = (blockIdx.x - image * tiles) * across + threadIdx.x;
  const bool is_channel = channel < groups.channels;
  C product = 0, sum = 0;
  if (is_channel) {
    const std::int64_t begin = image * groups.channels * groups.pixels + channel,
                       group = image * groups.groups + quotient(channel, groups.of_group);
    const C center = in.mean[group], r = in.rstd[group];
#pragma unroll 4
    for (std::int64_t pixel = threadIdx.y; pixel < groups.pixels; pixel += along) {
      const std::int64_t at = begin + pixel * groups.channels;
      const C g = widened(in.gy[at]);
      product += g * ((widened(in.x[at]) - center) * r);
      sum += g;
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = product;
  shared[1][threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 1 || !is_channel) return;
  C total = 0;
  for (int y = 0; y < along; ++y) total += shared[threadIdx.y][y][threadIdx.x];
  (threadIdx.y == 0 ? out.products(image) : out.sums(image))[channel] = total;
}

// With g = gy weight, gx = rstd (g - mean(g) - h mean(g h)) in each group.
template <class T, int lanes, class G, class C = compute_t<T>>
__global__ void __launch_bounds__(wide_block)
    input_gradient_kernel(G groups, BackwardInputs<T> in, ChannelSums<C> of_channels, T* gx) {
  const std::int64_t vectors = groups.elements() / lanes;
  const C count = static_cast<C>(groups.elements());
  for (std::int64_t group = blockIdx.x; group < groups.count; group += gridDim.x) {
    const std::int64_t begin = groups.begin(group), first_channel = groups.first_channel(group),
                       image = quotient(group, groups.groups);
    const C center = in.mean[group], r = in.rstd[group];
    const auto weight = [&](std::int64_t channel) { return in.weight ? in.weight[first_channel + channel] : C(1); };
    C sums[2] = {};
    for (std::int64_t channel = threadIdx.x; channel < groups.of_group; channel += blockDim.x) {
      sums[0] += weight(channel) * of_channels.sums(image)[first_channel + channel];
      sums[1] += weight(channel) * of_channels.products(image)[first_channel + channel];
    }
    sum_over_row(sums);
    const C share = sums[0] / count, slope = sums[1] / count;
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      const Neighbours here = groups.template neighbours<lanes>(i);
      const auto x = load<lanes>(in.x + begin + here.at);
      auto g = load<lanes>(in.gy + begin + here.at);
      for (int k = 0; k < lanes; ++k) {
        const C h = (widened(x.values[k]) - center) * r, w = weight(G::channel(here, k));
        g.values[k] = narrowed<T>((widened(g.values[k]) * w - share - h * slope) * r);
      }
      g.store(gx + begin + here.at);
    }
  }
}

template <class T, int lanes, class C>
void add_up(const Groups<false>& groups, const BackwardInputs<T>& in, ChannelSums<C> out, Device device) {
  const std::int64_t planes = groups.count / groups.groups * groups.channels;
  plane_sums_kernel<T, lanes><<<blocks_for(planes * 32, device), block_size, 0, stream_of(device)>>>(groups, in, out);
  check_launch();
}
template <class T, int lanes, class C>
void add_up(const Groups<true>& groups, const BackwardInputs<T>& in, ChannelSums<C> out, Device device) {
  const std::int64_t images = groups.count / groups.groups, tiles = (groups.channels + across - 1) / across;
  channel_sums_kernel<T>
      <<<static_cast<unsigned>(images * tiles), dim3(across, along), 0, stream_of(device)>>>(groups, in, out);
  check_launch();
}

template <class T, class C = compute_t<T>>
void launch(const GroupNormBackwardArgs& a, ChannelSums<C> sums) {
  const BackwardInputs<T> in{a.x.as<T>(), a.gy.as<T>(), a.weight.as<C>(), a.mean.as<C>(), a.rstd.as<C>()};
  with_groups<T>(a.x, a.groups, {&a.x, &a.gy, &a.gx}, [&](auto lanes, const auto& groups) {
    add_up<T, lanes>(groups, in, sums, a.x.device);
    if (!a.gx.defined()) return;
    input_gradient_kernel<T, lanes>
        <<<group_blocks(groups.count), group_threads(groups.elements() / lanes), 0, stream_of(a.x.device)>>>(
            groups, in, sums, a.gx.as<T>());
    check_launch();
  });
}

}  // namespace

void group_norm_backward(const GroupNormBackwardArgs& a, const Plan&, Workspace ws) {
  const std::int64_t images = a.x.numel() == 0 ? 0 : a.x.shape[0], channels = a.x.shape[1];  // an empty x has sums 0
  if (channels == 0) return;
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    auto* const sums = static_cast<C*>(ws.data);
    if (images > 0) launch<T>(a, ChannelSums<C>{sums, channels});
    if (a.gw.defined() || a.gb.defined())
      add_shares<2>(sums, images, channels, a.gw.as<C>(), a.gb.as<C>(), stream_of(a.x.device));
  });
}

}  // namespace bytetape::cuda
