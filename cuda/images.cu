// A thread makes one element of x, counted as x lies in memory, so that a warp writes one run of it; pixels and what
// they become are read through the cache. The first m threads see to the labels, and to indices that are no example.
#include <algorithm>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/elementwise.cuh"
#include "bytetape/cuda/fault.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// A vector with a step.
template <class T>
struct Column {
  T* data;
  std::int64_t step;
  template <class V>
  explicit Column(const V& v) : data(v.template as<T>()), step(v.strides[0]) {}
  __device__ T& operator[](std::int64_t i) const { return data[i * step]; }
};

template <class T>
struct Gather {
  const std::uint8_t* images;
  const T* values;
  T* x;
  Column<const std::int64_t> labels, indices;
  Column<std::int64_t> y;
  std::int64_t examples, batch, example_step, channel_step, value_step;
  FaultSlot faults;

  explicit Gather(const GatherImagesArgs& a)
      : images(a.images.as<std::uint8_t>()),
        values(a.values.as<T>()),
        x(a.x.as<T>()),
        labels(a.labels),
        indices(a.indices),
        y(a.y),
        examples(a.images.shape[0]),
        batch(a.y.shape[0]),
        example_step(a.images.strides[0]),
        channel_step(a.values.strides[0]),
        value_step(a.values.strides[1]),
        faults(a.y.device) {}

  __device__ bool is_example(std::int64_t i) const { return i >= 0 && i < examples; }
  __device__ void gather_label(std::int64_t row) const {
    const std::int64_t example = indices[row];
    y[row] = is_example(example) ? labels[example] : 0;
    if (!is_example(example))
      leave_if_first(faults, {Fault::Kind::example, example, examples}, row,
                     [this](std::int64_t i) { return !is_example(indices[i]); });
  }
  __device__ T pixel(std::int64_t row, std::int64_t channel, std::int64_t place) const {
    const std::int64_t example = indices[row];
    if (!is_example(example)) return T{};
    return values[channel * channel_step + images[example * example_step + place] * value_step];
  }
};

/// Of x: the place in x, in an image, the row and the channel.
template <class I>
using Places = detail::Steps<4, I>;

template <class T, class I>
__global__ void __launch_bounds__(block_size) gather_kernel(Gather<T> gather, Places<I> places) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * block_size + threadIdx.x,
                     step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t row = thread; row < gather.batch; row += step) gather.gather_label(row);
  for (std::int64_t i = thread; i < places.count; i += step) {
    std::int64_t at[4];
    places.find(static_cast<I>(i), at);
    gather.x[at[0]] = gather.pixel(at[2], at[3], at[1]);
  }
}

Walk<4> walk_over(const GatherImagesArgs& a) {
  Strides place = a.images.strides;
  place[0] = 0;  // what the index says comes on top
  const Strides row{1, 0, 0, 0}, channel{0, 1, 0, 0};
  Walk<4> walk(a.x.shape, {&a.x.strides, &place, &row, &channel});
  walk.complete();
  if (a.x.numel() == 0) (walk = {}).add(0, {});  // nothing to divide by
  return walk;
}

void gather_images(const GatherImagesArgs& a) {
  const std::int64_t work = std::max(a.x.numel(), a.y.numel());
  if (work == 0) return;
  const Walk<4> walk = walk_over(a);
  const cudaStream_t stream = stream_of(a.y.device);
  const unsigned blocks = blocks_for(work, a.y.device);
  visit_floating(a.x.dtype, [&](auto zero) {
    const Gather<decltype(zero)> gather(a);
    if (work < detail::most)
      gather_kernel<<<blocks, block_size, 0, stream>>>(gather, Places<std::uint32_t>(walk));
    else
      gather_kernel<<<blocks, block_size, 0, stream>>>(gather, Places<std::int64_t>(walk));
  });
  check_launch();
}

}  // namespace

ImagesKernels images_kernels() { return {.gather_images = gather_images}; }

}  // namespace bytetape::cuda
