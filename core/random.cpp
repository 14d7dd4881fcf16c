#include "bytetape/core/random.h"

#include "bytetape/core/capture.h"

namespace bytetape {

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

PhiloxState Generator::take(std::int64_t n) {
  PhiloxState s;
  {
    std::lock_guard lock(place_->mutex);
    s = place_->state;
    place_->state.offset += static_cast<std::uint64_t>((n + 3) / 4);
  }
  return detail::capture_running ? detail::capture_running->drawn_from(place_, s) : s;
}

PhiloxState Generator::take(std::int64_t n, Device device) {
  const bool is_recorded = detail::capture_running && detail::capture_running->device() == device;
  return device.is_meta && !is_recorded ? PhiloxState{} : take(n);
}

PhiloxState Generator::state() const {
  std::lock_guard lock(place_->mutex);
  return place_->state;
}

void Generator::set_state(PhiloxState s) {
  detail::refuse_in_capture("sets a generator's state, which a replay would not");
  std::lock_guard lock(place_->mutex);
  place_->state = s;
}

Generator& default_generator() {
  static Generator g;
  return g;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace bytetape
