#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "bytetape/core/random.h"

namespace bytetape::detail {

/// Keeps or repeats the random draws of its thread, from all generators, while it lives. `keep` stores them. `repeat`
/// returns the stored draws in order, and leaves the generators unchanged, also when they are seeded or set.
class Draws {
 public:
  enum class Mode { keep, repeat };
  Draws(std::vector<PhiloxState>& states, Mode mode);
  ~Draws();
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

  /// Returns the state to draw from. take() draws it from the generator.
  /// Throws AutogradError if all stored draws were repeated already.
  PhiloxState draw(const std::function<PhiloxState()>& take);
  /// Whether this, or an enclosing Draws, repeats.
  bool repeats() const { return mode_ == Mode::repeat || (outer_ && outer_->repeats()); }
  /// Throws AutogradError if some stored draws were not repeated.
  void check_all_repeated() const;

 private:
  std::vector<PhiloxState>& states_;
  Mode mode_;
  std::size_t next_ = 0;
  Draws* outer_;
};

}  // namespace bytetape::detail
