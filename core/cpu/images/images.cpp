#include <type_traits>

#include "bytetape/core/cpu/parallel.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/fault.h"
#include "bytetape/core/kernels/images.h"
#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"

namespace bytetape::cpu {
namespace {

std::int64_t example(const GatherImagesArgs& a, std::int64_t i) {
  return a.indices.defined() ? a.indices.as<std::int64_t>()[i * a.indices.strides[0]] : i;
}

void check_examples(const GatherImagesArgs& a) {
  const std::int64_t n = a.images.shape[0];
  for (std::int64_t i = 0; i < a.x.shape[0]; ++i)
    if (const std::int64_t at = example(a, i); at < 0 || at >= n) throw_fault({Fault::Kind::example, at, n});
}

constexpr std::int32_t cut = -2;  // column index of a cut-out pixel, which is 0 in x even if pixel 0 is not

/// Source columns of a part of a row. They are the same for every row and channel of an image.
struct Columns {
  static constexpr std::int64_t most = 512;
  std::int64_t first, count;
  std::int32_t from[most];

  Columns(const PixelMap& map, std::int64_t first, std::int64_t count) : first(first), count(count) {
    for (std::int64_t i = 0; i < count; ++i) from[i] = map.column(static_cast<std::int32_t>(first + i));
  }
  void cut_out(const PixelMap& map) {
    for (std::int64_t i = 0; i < count; ++i)
      if (map.cuts_column(static_cast<std::int32_t>(first + i))) from[i] = cut;
  }
};

/// Computes a part of row h of channel c, of image i of the batch, from row `row` of example `at`.
template <class From, class T>
void gather_columns(const GatherImagesArgs& a, std::int64_t i, std::int64_t c, std::int64_t h, std::int64_t at,
                    std::int32_t row, const Columns& columns) {
  const Strides &from = a.images.strides, &to = a.x.strides;
  const From* pixels = a.images.as<From>() + at * from[0] + c * from[1] + std::max(row, 0) * from[2];
  T* x = a.x.as<T>() + i * to[0] + c * to[1] + h * to[2] + columns.first * to[3];
  const auto convert = [values = a.values.defined() ? a.values.as<T>() + c * a.values.strides[0] : nullptr,
                        step = a.values.defined() ? a.values.strides[1] : 0](From pixel) {
    if constexpr (std::is_same_v<From, T>)
      return pixel;
    else
      return values[pixel * step];
  };
  const T outside = convert(From{});
  for (std::int64_t w = 0; w < columns.count; ++w) {
    const std::int32_t column = columns.from[w];
    x[w * to[3]] = column >= 0 && row >= 0 ? convert(pixels[column * from[3]]) : column == cut ? T{} : outside;
  }
}

/// Computes row h of image i of the batch.
template <class From, class T>
void gather_row(const GatherImagesArgs& a, std::int64_t i, std::int64_t h) {
  const std::int64_t at = example(a, i), width = a.x.shape[3];
  const PixelMap map(a.augmenting, at, a.x.shape[2], width);
  const std::int32_t row = map.row(static_cast<std::int32_t>(h));
  for (std::int64_t first = 0; first < width; first += Columns::most) {
    Columns columns(map, first, std::min(Columns::most, width - first));
    if (map.cuts_row(static_cast<std::int32_t>(h))) columns.cut_out(map);
    for (std::int64_t c = 0; c < a.x.shape[1]; ++c) gather_columns<From, T>(a, i, c, h, at, row, columns);
  }
}

template <class From, class T>
void gather_all(const GatherImagesArgs& a) {
  const std::int64_t height = a.x.shape[2];
  parallel_for(a.x.shape[0] * height, grain / std::max<std::int64_t>(a.x.shape[1] * a.x.shape[3], 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) gather_row<From, T>(a, i / height, i % height);
               });
}

void gather_labels(const GatherImagesArgs& a) {
  for (std::int64_t i = 0; i < a.y.shape[0]; ++i)
    a.y.as<std::int64_t>()[i * a.y.strides[0]] = a.labels.as<std::int64_t>()[example(a, i) * a.labels.strides[0]];
}

void gather_images(const GatherImagesArgs& a) {
  check_examples(a);
  if (a.values.defined())
    visit_floating(a.x.dtype, [&](auto zero) { gather_all<std::uint8_t, decltype(zero)>(a); });
  else
    visit_bits(a.x.dtype, [&](auto zero) { gather_all<decltype(zero), decltype(zero)>(a); });
  if (a.labels.defined()) gather_labels(a);
}

}  // namespace

const ImagesKernels& images_kernels() {
  static const ImagesKernels all{.gather_images = gather_images};
  return all;
}

}  // namespace bytetape::cpu
