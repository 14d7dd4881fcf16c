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
  check<ValueError>(y.size() <= 3 && y[y.size() - 2] == x[x.size() - 2] && y[y.size() - 1] == x[x.size() - 1],
                    "augment moves the pixels of x, ", x, ", but cannot move those of y, ", y,
                    ": expected labels, or images (h, w) or (k, h, w) of the same size; else augment in the dataset");
  return true;
}

BatchCopier::BatchCopier(const Dataset& dataset, const DataLoaderOptions& options)
    : dataset_(dataset),
      device_(options.device),
      loads_there_(device_.type == DeviceType::cpu),
      augment_(options.augment) {
  memory::allocator(device_);  // throws if there is no such device
  if (!options.normalize && !augment_.changes_anything()) return;
  const PhaseScope phase(memory::Phase::data);
  const ExampleSpec spec = dataset.example();
  const Tensor none = dataset.allocate(0, Device::meta()).x;
  if (options.normalize) {
    const std::vector<double> pixels = normalized_pixels(none, *options.normalize);
    table_ = pixel_table(pixels, DType::f32, device_);
  }
  augment_images(with_channels(none), augment_);  // throws now what each batch would throw
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

// Waits for the copies here, because a later wait would also wait for the next batch, which is sent by then.
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
