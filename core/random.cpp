#include "bytetape/core/random.h"

#include <utility>

#include "bytetape/core/ambient.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/images/draws.h"
#include "bytetape/core/state_dict.h"

namespace bytetape {

using detail::core_ambient;

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

PhiloxState Generator::take(std::int64_t n) {
  return core_ambient.draws ? core_ambient.draws->draw([&] { return advance(n); }) : advance(n);
}

PhiloxState Generator::advance(std::int64_t n) {
  PhiloxState s;
  {
    std::lock_guard lock(place_->mutex);
    s = place_->state;
    place_->state.offset += static_cast<std::uint64_t>((n + 3) / 4);
  }
  return core_ambient.capture ? core_ambient.capture->drawn_from(place_, s) : s;
}

PhiloxState Generator::take(std::int64_t n, Device device) {
  const bool is_recorded = core_ambient.capture && core_ambient.capture->device() == device;
  return device.is_meta && !is_recorded ? PhiloxState{} : take(n);
}

PhiloxState Generator::state() const {
  std::lock_guard lock(place_->mutex);
  return place_->state;
}

void Generator::set_state(PhiloxState s) {
  detail::refuse_in_capture("sets a generator's state, which a replay would not");
  if (core_ambient.draws && core_ambient.draws->repeats()) return;
  std::lock_guard lock(place_->mutex);
  place_->state = s;
}

StateDict Generator::state_dict() const {
  const PhiloxState s = state();
  return {.tensors = {},
          .numbers = {{"seed", static_cast<std::int64_t>(s.seed)}, {"offset", static_cast<std::int64_t>(s.offset)}}};
}

void Generator::load_state_dict(const StateDict& state) {
  check_names(state, state_dict());
  set_state({static_cast<std::uint64_t>(state.integer("seed")), static_cast<std::uint64_t>(state.integer("offset"))});
}

Generator& default_generator() {
  static Generator shared;
  return core_ambient.generator ? *core_ambient.generator : shared;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

DefaultGenerator::DefaultGenerator(Generator& generator)
    : previous_(std::exchange(core_ambient.generator, &generator)) {}
DefaultGenerator::~DefaultGenerator() { core_ambient.generator = previous_; }

}  // namespace bytetape
