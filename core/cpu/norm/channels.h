#pragma once
// Loops over images (n, c, h, w) with a few numbers per channel. Channels are the inner loop if they are adjacent
// (channels-last, or h = w = 1). Otherwise planes are.
#include <array>
#include <utility>

#include "bytetape/core/cpu/elementwise.h"

namespace bytetape::cpu {

inline bool channels_adjacent(std::initializer_list<const ConstView*> images) {
  for (const ConstView* v : images)
    if (v->shape[1] == 1 || v->strides[1] != 1) return false;
  return true;
}

inline std::int64_t pixel_count(const ConstView& x) { return x.shape[0] * x.shape[2] * x.shape[3]; }

/// Returns how many adjacent pixels can be treated as one pixel of more channels. Loops over the channels of a pixel
/// get longer then. 1 if an image is not dense channels-last.
inline std::int64_t folding(std::initializer_list<const ConstView*> images) {
  const ConstView& first = **images.begin();
  if (numel(first.shape) == 0) return 1;
  for (const ConstView* v : images)
    if (!same_layout(v->shape, v->strides, channels_last_strides(v->shape))) return 1;
  std::int64_t fold = 1;
  while (2 * fold * first.shape[1] <= detail::chunk && pixel_count(first) % (2 * fold) == 0) fold *= 2;
  return fold;
}

/// Returns v with `fold` pixels as one. Channel c of the result is channel c % v.shape[1] of v.
template <class V>
V folded(V v, std::int64_t fold) {
  if (fold == 1) return v;
  const std::int64_t channels = v.shape[1] * fold;
  v.shape = {1, channels, 1, pixel_count(v) / fold};
  v.strides = channels_last_strides(v.shape);
  return v;
}

/// Calls f(offsets) for pixels begin .. end - 1, row-major over (n, h, w). The offsets are those of the pixel's first
/// channel in each image.
template <std::size_t K, class F>
void for_each_pixel(const std::array<const ConstView*, K>& images, std::int64_t begin, std::int64_t end, F&& f) {
  const std::int64_t height = images[0]->shape[2], width = images[0]->shape[3];
  while (begin < end) {
    const std::int64_t row = begin / width, w = begin % width, n = row / height, h = row % height;
    std::array<std::int64_t, K> at;
    for (std::size_t k = 0; k < K; ++k) {
      const Strides& s = images[k]->strides;
      at[k] = n * s[0] + h * s[2] + w * s[3];
    }
    const std::int64_t stop = std::min(end, begin + width - w);
    for (; begin < stop; ++begin) {
      f(at);
      for (std::size_t k = 0; k < K; ++k) at[k] += images[k]->strides[3];
    }
  }
}

/// Calls f(arrays...) for consecutive pieces of channel c of image n, with one array per image in the compute type.
template <class T, std::size_t K, class F>
void for_each_piece(const std::array<const ConstView*, K>& images, std::int64_t n, std::int64_t c, F&& f) {
  std::array<detail::Source<T>, K> sources;
  std::array<std::int64_t, K> step;
  std::int64_t height = images[0]->shape[2], width = images[0]->shape[3];
  bool direct = true, joined = true;
  for (std::size_t k = 0; k < K; ++k) {
    step[k] = images[k]->strides[3] * static_cast<std::int64_t>(sizeof(T));
    direct = direct && sources[k].direct(step[k]);
    joined = joined && images[k]->strides[2] == width * images[k]->strides[3];
  }
  if (joined) width *= std::exchange(height, 1);
  const std::int64_t piece = direct ? width : detail::chunk;
  const auto load = [&]<std::size_t... I>(std::int64_t h, std::int64_t w, std::index_sequence<I...>) {
    const auto start = [&](const ConstView& v) {
      return reinterpret_cast<const char*>(v.as<T>() + n * v.strides[0] + c * v.strides[1] + h * v.strides[2] +
                                           w * v.strides[3]);
    };
    f(sources[I].load(start(*images[I]), step[I], std::min(piece, width - w))...);
  };
  for (std::int64_t h = 0; h < height; ++h)
    for (std::int64_t w = 0; w < width; w += piece) load(h, w, std::make_index_sequence<K>());
}

namespace detail {

template <class T, class V>
V plane(const V& v, std::int64_t n, std::int64_t c) {
  return V(v.template as<T>() + n * v.strides[0] + c * v.strides[1], v.dtype, v.device, {v.shape[2], v.shape[3]},
           {v.strides[2], v.strides[3]});
}

template <class T, std::size_t... P, class Numbers, class F, class... X>
void map_pixels(std::index_sequence<P...>, const Numbers& numbers, const F& f, const View& y, const X&... x) {
  using C = compute_t<T>;
  const std::int64_t channels = y.shape[1];
  parallel_for(pixel_count(y), grain / channels, [&](std::int64_t begin, std::int64_t end) {
    C table[sizeof...(P)][chunk];
    for (std::int64_t first = 0; first < channels; first += chunk) {
      const std::int64_t count = std::min(chunk, channels - first);
      for (std::int64_t c = 0; c < count; ++c) {
        const auto of_channel = numbers(first + c);
        ((table[P][c] = static_cast<C>(of_channel[P])), ...);
      }
      const auto pixel = [&, to = y.as<T>() + first](std::int64_t at, const auto*... from) {
        T* __restrict out = to + at;
        for (std::int64_t c = 0; c < count; ++c) out[c] = static_cast<T>(f(table[P][c]..., static_cast<C>(from[c])...));
      };
      const auto at_offsets = [&]<std::size_t... I>(const auto& at, std::index_sequence<I...>) {
        pixel(at[0], (x.template as<T>() + first + at[I + 1])...);
      };
      for_each_pixel<sizeof...(X) + 1>({&y, &x...}, begin, end,
                                       [&](const auto& at) { at_offsets(at, std::index_sequence_for<X...>()); });
    }
  });
}

template <class T, std::size_t... P, class Numbers, class F, class... X>
void map_planes(std::index_sequence<P...>, const Numbers& numbers, const F& f, const View& y, const X&... x) {
  using C = compute_t<T>;
  const std::int64_t channels = y.shape[1], plane_size = y.shape[2] * y.shape[3];
  parallel_for(y.shape[0] * channels, grain / plane_size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / channels, c = i % channels;
      const auto of_channel = numbers(c);
      elementwise<T, decltype((void)x, T())...>(
          [&](const auto&... piece) { return f(static_cast<C>(of_channel[P])..., piece...); }, plane<T>(y, n, c),
          plane<T>(x, n, c)...);
    }
  });
}

}  // namespace detail

/// Computes y = f(numbers of the channel..., x...) elementwise. numbers(c) returns an array of doubles. y and all x
/// hold T.
template <class T, class Numbers, class F, class... X>
void map_channels(const Numbers& numbers, const F& f, const View& y, const X&... x) {
  if (numel(y.shape) == 0) return;
  constexpr auto each = std::make_index_sequence<std::tuple_size_v<decltype(numbers(0))>>();
  if (!channels_adjacent({&y, &x...})) return detail::map_planes<T>(each, numbers, f, y, x...);
  const std::int64_t fold = folding({&y, &x...}), channels = y.shape[1];
  const auto of_channel = [&](std::int64_t c) { return numbers(c % channels); };
  detail::map_pixels<T>(each, of_channel, f, folded(y, fold), folded(x, fold)...);
}

}  // namespace bytetape::cpu
