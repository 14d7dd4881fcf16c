#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/fault.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

std::int64_t index(const GatherImagesArgs& a, std::int64_t i) {
  return a.indices.as<std::int64_t>()[i * a.indices.strides[0]];
}

void check_indices(const GatherImagesArgs& a) {
  const std::int64_t n = a.images.shape[0];
  for (std::int64_t i = 0; i < a.y.shape[0]; ++i)
    if (const std::int64_t at = index(a, i); at < 0 || at >= n) throw_fault({Fault::Kind::example, at, n});
}

/// Row h of channel c, of image i of the batch.
template <class T>
void gather_row(const GatherImagesArgs& a, std::int64_t i, std::int64_t c, std::int64_t h) {
  const Strides &from = a.images.strides, &to = a.x.strides, &by = a.values.strides;
  const std::uint8_t* pixels = a.images.as<std::uint8_t>() + index(a, i) * from[0] + c * from[1] + h * from[2];
  const T* values = a.values.as<T>() + c * by[0];
  T* x = a.x.as<T>() + i * to[0] + c * to[1] + h * to[2];
  for (std::int64_t w = 0; w < a.x.shape[3]; ++w) x[w * to[3]] = values[pixels[w * from[3]] * by[1]];
}

void gather_images(const GatherImagesArgs& a) {
  check_indices(a);
  const std::int64_t channels = a.x.shape[1], height = a.x.shape[2];
  visit_floating(a.x.dtype, [&](auto zero) {
    parallel_for(a.x.shape[0] * channels * height, grain / std::max<std::int64_t>(a.x.shape[3], 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row)
                     gather_row<decltype(zero)>(a, row / height / channels, row / height % channels, row % height);
                 });
  });
  for (std::int64_t i = 0; i < a.y.shape[0]; ++i)
    a.y.as<std::int64_t>()[i * a.y.strides[0]] = a.labels.as<std::int64_t>()[index(a, i) * a.labels.strides[0]];
}

}  // namespace

ImagesKernels images_kernels() { return {.gather_images = gather_images}; }

}  // namespace bytetape::cpu
