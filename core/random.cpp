#include "bytetape/core/random.h"

namespace bytetape {

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

PhiloxState Generator::take(std::int64_t n) {
  std::lock_guard lock(mutex_);
  const PhiloxState s = state_;
  state_.offset += static_cast<std::uint64_t>((n + 3) / 4);
  return s;
}

PhiloxState Generator::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(PhiloxState s) {
  std::lock_guard lock(mutex_);
  state_ = s;
}

Generator& default_generator() {
  static Generator g;
  return g;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace bytetape
