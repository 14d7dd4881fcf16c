#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// Whether the first element's address is a multiple of `bytes`, so that vectors of that size can be accessed there.
/// True for constants and undefined views, which have no address.
inline bool is_aligned(const ConstView& x, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(x.data()) % bytes == 0;
}
inline bool are_aligned(std::initializer_list<const ConstView*> views, std::size_t bytes = 16) {
  return std::all_of(views.begin(), views.end(), [bytes](const ConstView* v) { return is_aligned(*v, bytes); });
}

}  // namespace bytetape::cuda
