#pragma once
#include <array>

#include "bytetape/core/kernels/families.h"

namespace bytetape {

/// The kernels of a device. A kernel is a plain function on views, or Planned if it needs scratch memory
/// (core/kernels/planned.h), because kernels never allocate. Ops check shapes, dtypes and devices before they run one.
///
/// Names: x is an input, y an output, g a gradient (gy of y, gx of x). Views may have any strides, and floats are
/// accumulated in at least f32, unless a family says otherwise. Only inputs of elementwise kernels may be constants.
class KernelTable {
 public:
  /// Makes a table of the given families, which must outlive it. The device lacks all other families.
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

  /// Returns a kernel, as in find(&PointwiseKernels::relu), or null if the device lacks it.
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
