#pragma once
#include <array>

#include "bytetape/core/kernels/families.h"

namespace bytetape {

/// What a device can do: the kernels of its families. A kernel is a plain function on views, or Planned if it needs
/// scratch (core/kernels/planned.h): kernels never allocate. Ops check shapes, dtypes and devices before they run one.
///
/// Names in the families: x inputs, y outputs, g gradients (gy of y, gx of x). Views may have any strides, and floats
/// are accumulated in at least f32, unless a family says otherwise. Only inputs of elementwise kernels may be
/// constants.
class KernelTable {
 public:
  /// A table of the families given, which must outlive it. The device lacks the kernels of all others.
  template <class... Kernels>
  explicit KernelTable(const Kernels&... families) {
    (set(families), ...);
  }

  /// Replaces a family. `family` must outlive the table.
  template <class Kernels>
  void set(const Kernels& family) {
    families_[index<Kernels>] = &family;
  }
  template <class Kernels>
  void set(const Kernels&&) = delete;

  /// A kernel, such as find(&PointwiseKernels::relu). It is null if the device lacks it.
  template <class Entry, class Kernels>
  Entry find(Entry Kernels::*kernel) const {
    const auto* family = static_cast<const Kernels*>(families_[index<Kernels>]);
    return family ? family->*kernel : Entry{};
  }

 private:
  template <class Kernels>
  static constexpr auto index = static_cast<std::size_t>(FamilyOf<Kernels>::value);

  std::array<const void*, family_count> families_{};
};

}  // namespace bytetape
