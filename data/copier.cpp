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

/// Whether y is an image of x's size, which crop and flip move with x; false where it has no place in x, as a label.
/// Throws ValueError where it may have one that cannot be known.
static bool are_images_alike(const ExampleSpec& spec) {
  const Shape &x = spec.x_shape, &y = spec.y_shape;
  if (y.size() < 2) return false;
  check<ValueError>(y.size() <= 3 && y[y.size() - 2] == x[x.size() - 2] && y[y.size() - 1] == x[x.size() - 1],
                    "augment moves the pixels of x, ", x, ", and cannot move y, ", y,
                    ", along: expected labels, or images (h, w) or (k, h, w) of the same size; augment in the dataset");
  return true;
}

BatchCopier::BatchCopier(const Dataset& dataset, const DataLoaderOptions& options)
    : dataset_(dataset),
      device_(options.device),
      loads_there_(device_.type == DeviceType::cpu),
      augment_(options.augment) {
  memory::allocator(device_);  // is there such a device?
  if (!options.normalize && !augment_.changes_anything()) return;
  const PhaseScope phase(memory::Phase::data);
  const ExampleSpec spec = dataset.example();
  const Tensor none = dataset.allocate(0, Device::meta()).x;
  if (options.normalize) {
    const std::vector<double> pixels = normalized_pixels(none, *options.normalize);
    table_ = pixel_table(pixels, DType::f32, device_);
  }
  augment_images(with_channels(none), augment_);  // throws what each batch would
  if (augment_.moves()) moves_targets_ = are_images_alike(spec);
}

Batch BatchCopier::allocate(std::int64_t n) const {
  if (loads_there_) return dataset_.allocate(n, device_);
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
  return b;
}

// The copies are waited for here: a wait that is asked for once the next batch was sent would be for that too.
Batch BatchCopier::receive(const Batch& sent, const PhiloxState& draws, std::int64_t first) const {
  const PhaseScope phase(memory::Phase::data);
  sent.x.storage().before_read();
  sent.y.storage().before_read();
  if (!table_.defined() && !augment_.changes_anything()) return sent;
  Generator generator;
  if (augment_.changes_anything())
    generator.set_state({draws.seed, draws.offset + static_cast<std::uint64_t>(first * Augmenting::counters_each)});
  const Tensor images = with_channels(sent.x);
  const auto [x, y] = moves_targets_
                          ? augment_images(images, sent.y, augment_, generator, table_, Role::input)
                          : LabelledImages{augment_images(images, augment_, generator, table_, Role::input), sent.y};
  return {table_.defined() || sent.x.rank() == 4 ? x : without_channels(x), y};
}

}  // namespace bytetape::data
