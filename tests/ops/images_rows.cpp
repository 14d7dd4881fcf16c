#include "bytetape/core/images/images.h"

#include "bytetape/core/philox.h"
#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// Images (n, c, h, w), labels (n), indices (m) and values (c, 256).
Case gathered(const Input& images, const Input& indices, std::int64_t channels) {
  return {images.pixels(), in(images.shape[0]).classes(), indices.examples(), in(channels, 256)};
}

const Cases batches{gathered(in(3, 1, 4, 5), in(2), 1),
                    gathered(in(3, 3, 2, 4), in(7), 3),
                    gathered(in(4, 2, 3, 3).channels_last(), in(5).spaced(), 2),
                    gathered(in(3, 2, 5, 4).transposed(), in(4).narrowed(), 2),
                    {in(5, 3, 2, 2).narrowed().pixels(), in(5).classes().spaced(), in(3).examples().expanded(),
                     in(3, 256).transposed()},
                    gathered(in(3, 1, 4, 4), in(0), 1),
                    gathered(in(3, 2, 0, 4), in(2), 2)};
const Case many = gathered(in(40, 3, 33, 31), in(300), 3);

Tensor images_of(X x) { return gather_images(x[0], x[1], x[2], x[3]).x; }
Tensor labels_of(X x) { return gather_images(x[0], x[1], x[2], x[3]).y; }

double example(A x, std::int64_t i) { return x[2]({i}); }

Array expected_images(A x) {
  Shape shape = x[0].shape;
  shape[0] = x[2].shape[0];
  Array y(shape);
  for_each_index(shape, [&](const Dims& at) {
    Dims from = at;
    from[0] = static_cast<std::int64_t>(example(x, at[0]));
    y(at) = x[3]({at[1], static_cast<std::int64_t>(x[0](from))});
  });
  return y;
}

Array expected_labels(A x) {
  Array y(x[2].shape);
  for_each_index(y.shape, [&](const Dims& at) { y(at) = x[1]({static_cast<std::int64_t>(example(x, at[0]))}); });
  return y;
}

OpRow row_of(const std::string& variant, const Function& f, const Reference& reference) {
  const Case first = batches[0];
  const auto with = [&](std::size_t i, const Input& input) {
    Case inputs = first;
    inputs[i] = input;
    return inputs;
  };
  return {
      .op = "gather_images",
      .variant = variant,
      .f = f,
      .reference = reference,
      .cases = batches,
      .bad = {bad<ValueError>("indices is an undefined tensor", with(2, undefined)),
              bad<DeviceError>("labels are on another device than the images: i64(3,)",
                               with(1, in(3).classes().elsewhere())),
              bad<DTypeError>("expected images of u8, labels and indices of i64 and floating values, got f64(3, 1",
                              with(0, in(3, 1, 4, 5))),
              bad<DTypeError>("and u8(1, 256)", with(3, in(1, 256).pixels())),
              bad<ShapeError>("expected images (n, c, h, w), labels (n), indices (m) and values (c, 256), got u8(3, 4",
                              with(0, in(3, 4, 5).pixels())),
              bad<ShapeError>("i64(4,)", with(1, in(4).classes())), bad<ShapeError>("(1, 255)", with(3, in(1, 255))),
              needs_data(bad<ShapeError>("example 2 of a dataset of 2",
                                         {in(2, 1, 2, 2).pixels(), in(2).classes(), in(64).examples(), in(1, 256)}))},
      .gradients = Gradients::none,
      .large = many};
}

// ---- augmented

constexpr std::uint64_t seed = 11;
constexpr Augmentation mirrored{.crop_padding = 2, .padding_mode = PaddingMode::reflect, .flip = 0.5, .cutout = 3};
constexpr Augmentation bordered{.crop_padding = 3, .flip = 0.25, .cutout = 2};

/// One channel of an image, with a border.
Array padded(const Array& x, std::int64_t border, PaddingMode mode, double outside) {
  const std::int64_t h = x.size(0), w = x.size(1);
  Array y(Shape{h + 2 * border, w + 2 * border}, outside);
  const auto mirror = [](std::int64_t i, std::int64_t n) { return i < 0 ? -i : i < n ? i : 2 * n - 2 - i; };
  for_each_index(y.shape, [&](const Dims& at) {
    const std::int64_t r = at[0] - border, c = at[1] - border;
    if (mode == PaddingMode::reflect)
      y(at) = x({mirror(r, h), mirror(c, w)});
    else if (r >= 0 && r < h && c >= 0 && c < w)
      y(at) = x({r, c});
  });
  return y;
}

/// Step by step, as the order of crop, flip and cutout reads. Image i of x draws as number numbers[i]; a pixel outside
/// channel c is outside[c].
Array augmented(const Array& x, const Augmentation& by, const std::vector<std::int64_t>& numbers,
                const std::vector<double>& outside) {
  const std::int64_t h = x.size(2), w = x.size(3);
  const auto below = [](std::int64_t n, std::uint32_t word) {
    return static_cast<std::int64_t>(word * static_cast<std::uint64_t>(n) >> 32);
  };
  Array y(x.shape);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    const auto counter = 2 * static_cast<std::uint64_t>(numbers[static_cast<std::size_t>(i)]);
    const auto moves = philox(seed, counter), centre = philox(seed, counter + 1);
    const std::int64_t top = below(2 * by.crop_padding + 1, moves[0]), left = below(2 * by.crop_padding + 1, moves[1]);
    const bool flips = static_cast<double>(unit_float(moves[2])) < by.flip;
    const std::int64_t cut_top = below(h, centre[0]) - by.cutout / 2, cut_left = below(w, centre[1]) - by.cutout / 2;
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      Array channel(Shape{h, w});
      for_each_index(channel.shape, [&](const Dims& at) { channel(at) = x({i, c, at[0], at[1]}); });
      const Array larger = padded(channel, by.crop_padding, by.padding_mode, outside[static_cast<std::size_t>(c)]);
      for_each_index(channel.shape, [&](const Dims& at) {
        const bool cut =
            at[0] >= cut_top && at[0] < cut_top + by.cutout && at[1] >= cut_left && at[1] < cut_left + by.cutout;
        y({i, c, at[0], at[1]}) = cut ? 0 : larger({top + at[0], left + (flips ? w - 1 - at[1] : at[1])});
      });
    }
  }
  return y;
}

std::vector<std::int64_t> counted(const Array& x) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(x.size(0)));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}
std::vector<double> zeros_of(const Array& values) {
  std::vector<double> outside;
  for (std::int64_t c = 0; c < values.size(0); ++c) outside.push_back(values({c, 0}));
  return outside;
}
Array converted(A x) {
  Array y(x[0].shape);
  for_each_index(y.shape, [&](const Dims& at) { y(at) = x[1]({at[1], static_cast<std::int64_t>(x[0](at))}); });
  return y;
}

Function augmenting(const Augmentation& by) {
  return [by](X x) {
    Generator generator(seed);
    return augment_images(x[0], by, generator, if_any(x, 1));
  };
}
Reference augmented_by(const Augmentation& by) {
  return [by](A x) {
    return augmented(x[0], by, counted(x[0]), std::vector<double>(static_cast<std::size_t>(x[0].size(1))));
  };
}
Tensor gathered_and_augmented(X x) {
  Generator generator(seed);
  return gather_images(x[0], x[1], x[2], x[3], memory::Role::temporary, bordered, generator).x;
}
Array expected_gathered_and_augmented(A x) {
  std::vector<std::int64_t> numbers;
  for (const double v : x[2].values) numbers.push_back(static_cast<std::int64_t>(v));
  return augmented(expected_images(x), bordered, numbers, zeros_of(x[3]));
}

// ---- targets, which move with their images

/// (n, h, w) as (n, 1, h, w).
Array with_channels(Array x) {
  if (x.shape.size() == 3) x.shape.insert(1, 1);
  return x;
}
Array moved(const Array& targets, const Augmentation& by, const std::vector<std::int64_t>& numbers) {
  const Array images = with_channels(targets);
  Array y =
      augmented(images, by.without_cutout(), numbers, std::vector<double>(static_cast<std::size_t>(images.size(1))));
  y.shape = targets.shape;
  return y;
}
OpRow moved_row(const Augmentation& by, const std::string& variant) {
  const auto f = [by](X x) {
    Generator generator(seed);
    return augment_images(x[0], x[1], by, generator).y;
  };
  return {.op = "augment_images",
          .variant = variant,
          .f = f,
          .reference = [by](A x) { return moved(x[1], by, counted(x[0])); },
          .cases = {{in(3, 2, 6, 5), in(3, 6, 5)},
                    {in(2, 1, 4, 7).pixels(), in(2, 3, 4, 7).channels_last()},
                    {in(4, 3, 5, 5), in(4, 5, 5).classes().transposed()},
                    {in(2, 1, 4, 4).pixels(), in(2, 2, 4, 4).boolean().narrowed()},
                    {in(4, 2, 3, 3).expanded(), in(4, 3, 3).spaced()},
                    {in(0, 2, 3, 3), in(0, 3, 3)},
                    {in(2, 1, 4, 3), in(2, 0, 4, 3)}},
          .bad = {bad<ValueError>("targets is an undefined tensor", {in(2, 3, 5, 4), undefined}),
                  bad<DeviceError>("targets are on another device", {in(2, 3, 5, 4), in(2, 5, 4).elsewhere()}),
                  bad<ShapeError>("expected targets (n, h, w) or (n, k, h, w) for f64(2, 3, 5, 4)",
                                  {in(2, 3, 5, 4), in(2, 4, 5)}),
                  bad<ShapeError>("got f64(2, 5, 3)", {in(2, 3, 5, 4), in(2, 5, 3)}),
                  bad<ShapeError>("got f64(3, 5, 4)", {in(2, 3, 5, 4), in(3, 5, 4)}),
                  bad<ShapeError>("got f64(2,)", {in(2, 3, 5, 4), in(2)})},
          .gradients = Gradients::none,
          .large = {in(120, 3, 33, 31), in(120, 2, 33, 31)}};
}
/// Targets without their images, with the random numbers of the images.
OpRow moved_alone_row() {
  const auto by = [](const Augmentation& augmentation) {
    return [augmentation](X x) {
      Generator generator(seed);
      return augment_targets(x[0], augmentation, generator);
    };
  };
  return {
      .op = "augment_targets",
      .f = by(mirrored),
      .reference = [](A x) { return moved(x[0], mirrored, counted(x[0])); },
      .cases = {{in(3, 6, 5)},
                {in(2, 3, 4, 7).channels_last()},
                {in(4, 5, 5).classes().transposed()},
                {in(2, 2, 4, 4).boolean().narrowed()},
                {in(4, 3, 3).spaced()},
                {in(0, 3, 3)},
                {in(2, 0, 4, 3)}},
      .bad = {bad<ValueError>("targets is an undefined tensor", {undefined}),
              bad<ShapeError>("expected targets (n, h, w) or (n, k, h, w), got f64(5, 4)", {in(5, 4)}),
              bad<ShapeError>("expected targets (n, h, w) or (n, k, h, w), got f64(2, 1, 3, 5, 4)",
                              {in(2, 1, 3, 5, 4)}),
              bad<ShapeError>("crop_padding 2 that reflects needs larger images than f64(2, 1, 5, 2)", {in(2, 5, 2)}),
              bad<ValueError>("expected a probability, got flip = 2", {in(2, 5, 4)}, by({.flip = 2}))},
      .gradients = Gradients::none,
      .large = {in(120, 2, 33, 31)}};
}
OpRow gathered_targets_row() {
  const auto f = [](X x) {
    Generator generator(seed);
    return gather_images(x[0], x[1], x[2], x[3], memory::Role::temporary, bordered, generator).y;
  };
  const auto with_targets = [](const Input& targets, const Input& indices) {
    return Case{in(3, 2, 4, 5).pixels(), targets, indices.examples(), in(2, 256)};
  };
  return {.op = "gather_images",
          .variant = "targets",
          .f = f,
          .reference =
              [](A x) {
                Array picked(x[1].shape);
                picked.shape[0] = x[2].shape[0];
                picked.values.clear();
                std::vector<std::int64_t> numbers;
                const auto each = static_cast<std::ptrdiff_t>(x[1].values.size()) / x[1].size(0);
                for (const double v : x[2].values) {
                  numbers.push_back(static_cast<std::int64_t>(v));
                  const auto first = x[1].values.begin() + numbers.back() * each;
                  picked.values.insert(picked.values.end(), first, first + each);
                }
                return moved(picked, bordered, numbers);
              },
          .cases = {with_targets(in(3, 4, 5), in(5)), with_targets(in(3, 4, 5).classes(), in(2).spaced()),
                    with_targets(in(3, 3, 4, 5).channels_last(), in(4)), with_targets(in(3, 4, 5).boolean(), in(0)),
                    with_targets(in(3, 2, 4, 5).transposed(), in(3)), with_targets(in(3, 4, 5).expanded(), in(2))},
          .bad = {bad<ShapeError>("expected targets (n, h, w) or (n, k, h, w) for u8(3, 2, 4, 5)",
                                  with_targets(in(3, 5, 4), in(2))),
                  needs_data(bad<ShapeError>("example 2 of a dataset of 2",
                                             {in(2, 1, 2, 2).pixels(), in(2, 2, 2), in(64).examples(), in(1, 256)}))},
          .gradients = Gradients::none,
          .large = {in(40, 3, 33, 31).pixels(), in(40, 2, 33, 31), in(300).examples(), in(3, 256)}};
}

BadInput bad_augmentation(const std::string& words, const Augmentation& by) {
  return bad<ValueError>(words, {in(2, 3, 5, 4)}, augmenting(by));
}

const std::vector<BadInput> bad_batches{
    bad<ValueError>("the input is an undefined tensor", {undefined}),
    bad<ShapeError>("expected images (n, c, h, w), got f64(3, 4, 5) on", {in(3, 4, 5)}),
    bad<DTypeError>("expected u8 or floating images, got i64(2, 1, 4, 4)", {in(2, 1, 4, 4).as(DType::i64)}),
    bad<DTypeError>("only u8 images are converted, got f64(2, 1, 4, 4)", {in(2, 1, 4, 4), in(1, 256)}),
    bad<DeviceError>("values are on another device than the images", {in(2, 1, 4, 4).pixels(), in(1, 256).elsewhere()}),
    bad<DTypeError>("expected floating values, got u8(1, 256)", {in(2, 1, 4, 4).pixels(), in(1, 256).pixels()}),
    bad<ShapeError>("expected values (c, 256) for u8(2, 1, 4, 4)", {in(2, 1, 4, 4).pixels(), in(2, 256)}),
    bad<ShapeError>("crop_padding 2 that reflects needs larger images than f64(2, 1, 5, 2)", {in(2, 1, 5, 2)},
                    augmenting(mirrored)),
    bad_augmentation("expected a crop_padding from 0 to 2^29, got -1", {.crop_padding = -1}),
    bad_augmentation("expected a probability, got flip = 1.5", {.flip = 1.5}),
    bad_augmentation("expected a probability, got flip = nan", {.flip = NAN}),
    bad_augmentation("expected a cutout from 0 to 2^29, got -2", {.cutout = -2})};

Cases drawn_as_pixels(Cases cases) {
  for (Case& c : cases) c[0] = c[0].pixels();
  return cases;
}
Cases with_values(Cases cases) {
  for (Case& c : cases) c = {c[0].pixels(), in(c[0].shape[1], 256)};
  return cases;
}

OpRow augment_row(const std::string& variant, const Augmentation& by, const Reference& reference, const Cases& cases,
                  const Case& large) {
  return {.op = "augment_images",
          .variant = variant,
          .f = augmenting(by),
          .reference = reference,
          .cases = cases,
          .bad = bad_batches,
          .gradients = Gradients::none,
          .large = large};
}

std::vector<OpRow> augment_rows() {
  const Input large = in(120, 3, 33, 31);
  return {augment_row("", mirrored, augmented_by(mirrored), images, {large}),
          augment_row("bytes", mirrored, augmented_by(mirrored), drawn_as_pixels(images), {large.pixels()}),
          augment_row("converted", mirrored,
                      [](A x) { return augmented(converted(x), mirrored, counted(x[0]), zeros_of(x[1])); },
                      with_values(images), {large.pixels(), in(3, 256)}),
          augment_row("nothing", {}, augmented_by({}), images, {large})};
}

}  // namespace

std::vector<OpRow> images_rows() {
  std::vector<OpRow> rows = augment_rows();
  rows.push_back(row_of("", images_of, expected_images));
  rows.push_back(row_of("labels", labels_of, expected_labels));
  rows.push_back(moved_row(mirrored, "targets"));
  rows.push_back(moved_alone_row());
  rows.push_back(gathered_targets_row());
  rows.push_back(row_of("augmented", gathered_and_augmented, expected_gathered_and_augmented));
  return rows;
}

}  // namespace bytetape::test
