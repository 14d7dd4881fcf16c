// The y dim of blocks runs over images, the x dim over parts of an image, so that each thread draws an image's random
// numbers once. A thread computes elements of x in memory order, so that a warp writes adjacent memory. Source pixels
// and lookup tables are read through the cache. The first m threads also handle the labels, and check the indices of
// examples.
#include <algorithm>
#include <type_traits>

#include "bytetape/core/kernels/images.h"
#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// A strided vector; may be undefined.
template <class T>
struct Column {
  T* data;
  std::int64_t step;
  template <class V>
  explicit Column(const V& v) : data(v.template as<T>()), step(v.rank() == 1 ? v.strides[0] : 0) {}
  __device__ T& operator[](std::int64_t i) const { return data[i * step]; }
};

/// Strides of an image batch.
struct ImageSteps {
  std::int64_t image, channel, row, column;
  explicit ImageSteps(const Strides& s) : image(s[0]), channel(s[1]), row(s[2]), column(s[3]) {}
  __device__ std::int64_t operator()(std::int64_t i, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return i * image + c * channel + h * row + w * column;
  }
};

template <class From, class T>
struct Gather {
  const From* images;
  const T* values;
  T* x;
  Column<const std::int64_t> labels, indices;
  Column<std::int64_t> y;
  ImageSteps steps;
  std::int64_t examples, batch, height, width, x_step, channel_step = 0, value_step = 0;
  Augmenting augmenting;
  FaultSlot faults;

  explicit Gather(const GatherImagesArgs& a)
      : images(a.images.as<From>()),
        values(a.values.as<T>()),
        x(a.x.as<T>()),
        labels(a.labels),
        indices(a.indices),
        y(a.y),
        steps(a.images.strides),
        examples(a.images.shape[0]),
        batch(a.x.shape[0]),
        height(a.x.shape[2]),
        width(a.x.shape[3]),
        x_step(a.x.strides[0]),
        augmenting(a.augmenting),
        faults(a.x.device) {
    if (values) channel_step = a.values.strides[0], value_step = a.values.strides[1];
  }

  __device__ bool is_example(std::int64_t i) const { return i >= 0 && i < examples; }
  __device__ std::int64_t example(std::int64_t row) const { return indices.data ? indices[row] : row; }
  /// Gathers the label of a row, if there are labels. Reports a fault if the row's index is not an example.
  __device__ void gather_label(std::int64_t row) const {
    const std::int64_t at = example(row);
    if (labels.data) y[row] = is_example(at) ? labels[at] : 0;
    if (!is_example(at))
      leave_if_first(faults, {Fault::Kind::example, at, examples}, row,
                     [this](std::int64_t i) { return !is_example(indices[i]); });
  }
  __device__ T converted(std::int64_t channel, From pixel) const {
    if constexpr (std::is_same_v<From, T>)
      return pixel;
    else
      return values[channel * channel_step + pixel * value_step];
  }
  __device__ T pixel(const PixelMap& map, std::int64_t at, std::int64_t c, std::int32_t h, std::int32_t w) const {
    if (map.cuts_row(h) && map.cuts_column(w)) return T{};
    const std::int32_t row = map.row(h), column = map.column(w);
    return converted(c, row < 0 || column < 0 ? From{} : images[steps(at, c, row, column)]);
  }
};

/// `places`: offset in x, channel, row and column of an element of an image.
template <class From, class T, class I>
__global__ void __launch_bounds__(block_size) gather_kernel(Gather<From, T> gather, Steps<4, I> places) {
  const std::int64_t part = std::int64_t{blockIdx.x} * block_size + threadIdx.x,
                     parts = std::int64_t{gridDim.x} * block_size;
  if (gather.indices.data)
    for (std::int64_t row = blockIdx.y * parts + part; row < gather.batch; row += gridDim.y * parts)
      gather.gather_label(row);
  for (std::int64_t row = blockIdx.y; row < gather.batch; row += gridDim.y) {
    const std::int64_t example = gather.example(row);
    const bool is_example = gather.is_example(example);
    const PixelMap map(gather.augmenting, example, gather.height, gather.width);
    for (std::int64_t i = part; i < places.count; i += parts) {
      std::int64_t at[4];
      places.find(static_cast<I>(i), at);
      gather.x[row * gather.x_step + at[0]] =
          is_example
              ? gather.pixel(map, example, at[1], static_cast<std::int32_t>(at[2]), static_cast<std::int32_t>(at[3]))
              : T{};
    }
  }
}

Walk<4> walk_over_image(const View& x) {
  const auto image = [](const Dims& all) { return Dims{all[1], all[2], all[3]}; };
  const Strides place = image(x.strides), channel{1, 0, 0}, row{0, 1, 0}, column{0, 0, 1};
  return {image(x.shape), {&place, &channel, &row, &column}};
}

/// Returns enough blocks for all pixels, or for all labels. Each image has its own blocks.
dim3 grid_for(std::int64_t batch, std::int64_t pixels, Device device) {
  constexpr std::int64_t most = 65535;  // limit of the y dim
  const std::int64_t each = (pixels + block_size - 1) / block_size,
                     wanted = blocks_for(batch * std::max<std::int64_t>(pixels, 1), device);
  return {
      static_cast<unsigned>(std::clamp<std::int64_t>((wanted + batch - 1) / batch, 1, std::max<std::int64_t>(each, 1))),
      static_cast<unsigned>(std::min(batch, most))};
}

template <class From, class T>
void launch(const GatherImagesArgs& a) {
  const Walk<4> walk = walk_over_image(a.x);
  const std::int64_t pixels = numel(walk.shape);
  const dim3 grid = grid_for(a.x.shape[0], pixels, a.x.device);
  const cudaStream_t stream = stream_of(a.x.device);
  const Gather<From, T> gather(a);
  with_steps(walk, [&](const auto& places) { gather_kernel<<<grid, block_size, 0, stream>>>(gather, places); });
  check_launch();
}

void gather_images(const GatherImagesArgs& a) {
  if (a.x.shape[0] == 0) return;
  if (a.values.defined())
    visit_floating(a.x.dtype, [&](auto zero) { launch<std::uint8_t, decltype(zero)>(a); });
  else
    visit_bits(a.x.dtype, [&](auto zero) { launch<decltype(zero), decltype(zero)>(a); });
}

}  // namespace

const ImagesKernels& images_kernels() {
  static const ImagesKernels all{.gather_images = gather_images};
  return all;
}

}  // namespace bytetape::cuda
