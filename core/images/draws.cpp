#include "bytetape/core/images/draws.h"

#include "bytetape/core/ambient.h"
#include "bytetape/core/error.h"

namespace bytetape::detail {

Draws::Draws(std::vector<PhiloxState>& states, Mode mode) : states_(states), mode_(mode), outer_(core_ambient.draws) {
  core_ambient.draws = this;
}
Draws::~Draws() { core_ambient.draws = outer_; }

PhiloxState Draws::draw(const std::function<PhiloxState()>& take) {
  if (mode_ == Mode::repeat) {
    check<AutogradError>(next_ < states_.size(), "more random numbers are drawn than when the function ran first");
    return states_[next_++];
  }
  const PhiloxState s = outer_ ? outer_->draw(take) : take();
  states_.push_back(s);
  return s;
}

void Draws::check_all_repeated() const {
  check<AutogradError>(next_ == states_.size(), "fewer random numbers are drawn than when the function ran first");
}

}  // namespace bytetape::detail
