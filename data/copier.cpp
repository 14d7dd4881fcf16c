#include "bytetape/data/copier.h"

#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/pinned.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/device/transfer.h"
#include "bytetape/core/images/images.h"
#include "bytetape/core/images/pixel_map.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape::data {

using memory::PhaseScope;
using memory::Role;

/// Returns true if y is an image of x's size, which crop and flip must move with x; false if y has no positions in x,
/// like a label. Throws ValueError if y has another shape, because it may have positions that are not known.
static bool are_images_alike(const ExampleSpec& spec) {
  const Shape &x = spec.x_shape, &y = spec.y_shape;
  if (y.size() < 2) return false;
  check<ValueError>(is_image_like(y, x), "augment moves the pixels of x, ", x, ", but cannot move those of y, ", y,
                    ": expected labels, or images (h, w) or (k, h, w) of the same size; else augment in the dataset");
  return true;
}

/// Returns the numbers of the fields that move with x.
/// Throws ValueError if such a field is not an image of x's size.
static std::vector<std::size_t> find_moving(const ExampleSpec& spec) {
  std::vector<std::size_t> moving;
  for (std::size_t i = 0; i < spec.more.size(); ++i) {
    const Field& field = spec.more[i];
    if (!field.moves_with_x) continue;
    check<ValueError>(is_image_like(field.shape, spec.x_shape), "augment moves the pixels of x, ", spec.x_shape,
                      ", but cannot move those of '", field.name, "', ", field.shape,
                      ": expected images (h, w) or (k, h, w) of the same size");
    moving.push_back(i);
  }
  return moving;
}

BatchCopier::BatchCopier(const Dataset& dataset, const DataLoaderOptions& options)
    : dataset_(dataset),
      device_(options.device),
      loads_there_(device_.type == DeviceType::cpu),
      augment_(options.augment) {
  memory::allocator(device_);  // throws if there is no such device
  const ExampleSpec spec = dataset.example();
  check_names(spec.more);
  if (!options.normalize && !augment_.changes_anything()) return;
  const PhaseScope phase(memory::Phase::data);
  const Tensor none = dataset.allocate(0, Device::meta()).x;
  if (options.normalize) {
    const std::vector<double> pixels = normalized_pixels(none, *options.normalize);
    table_ = pixel_table(pixels, DType::f32, device_);
  }
  augment_images(with_channels(none), augment_);  // throws now what each batch would throw
  if (!augment_.moves()) return;
  moves_targets_ = are_images_alike(spec);
  moved_ = find_moving(spec);
}

Batch BatchCopier::allocate(std::int64_t n) const {
  if (memory::pinned_for(device_)) return dataset_.allocate_pinned(n, device_);
  return dataset_.allocate(n, device_.is_meta ? Device::meta() : Device::cpu());
}

Batch BatchCopier::send(const Batch& loaded) const {
  if (loads_there_) return loaded;
  const PhaseScope phase(memory::Phase::data);
  const StreamScope copies(Stream::for_copies());
  Batch b = dataset_.allocate(loaded.x.size(0), device_);
  const memory::Op<"DataLoader"> op;
  copy_across(loaded.x, b.x);
  copy_across(loaded.y, b.y);
  for (std::size_t i = 0; i < b.more.size(); ++i) copy_across(loaded.more[i].second, b.more[i].second);
  return b;
}

// Waits for the copies here, because a later wait would also wait for the next batch, which is sent by then.
Batch BatchCopier::receive(const Batch& sent, const PhiloxState& draws, std::int64_t first) const {
  const PhaseScope phase(memory::Phase::data);
  sent.x.storage().before_read();
  sent.y.storage().before_read();
  for (const auto& [name, tensor] : sent.more) tensor.storage().before_read();
  if (!table_.defined() && !augment_.changes_anything()) return sent;
  return augmented(sent, {draws.seed, draws.offset + static_cast<std::uint64_t>(first * Augmenting::counters_each)});
}

/// Returns a batch, normalised and augmented with the random numbers from `state` on.
Batch BatchCopier::augmented(const Batch& sent, const PhiloxState& state) const {
  Generator generator;
  if (augment_.changes_anything()) generator.set_state(state);
  const Tensor images = with_channels(sent.x);
  const auto [x, y] = moves_targets_
                          ? augment_images(images, sent.y, augment_, generator, table_, Role::input)
                          : LabelledImages{augment_images(images, augment_, generator, table_, Role::input), sent.y};
  Batch b{table_.defined() || sent.x.rank() == 4 ? x : without_channels(x), y, sent.more};
  for (const std::size_t i : moved_) {
    generator.set_state(state);
    b.more[i].second = augment_targets(sent.more[i].second, augment_, generator, Role::input);
  }
  return b;
}

}  // namespace bytetape::data
