#include "bytetape/core/images.h"

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

}  // namespace

std::vector<OpRow> images_rows() {
  return {row_of("", images_of, expected_images), row_of("labels", labels_of, expected_labels)};
}

}  // namespace bytetape::test
