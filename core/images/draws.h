#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "bytetape/core/random.h"

namespace bytetape::detail {

/// Sees, while it lives, what its thread takes from generators, whichever they are: `keep` writes it down, `repeat`
/// hands out what was written down once more, in that order, and leaves the generators as they are, also where they
/// are set.
class Draws {
 public:
  enum class Mode { keep, repeat };
  Draws(std::vector<PhiloxState>& states, Mode mode);
  ~Draws();
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

  /// What a generator hands out that would give take(). Throws AutogradError where all was repeated already.
  PhiloxState draw(const std::function<PhiloxState()>& take);
  /// True where this one repeats, or one around it.
  bool repeats() const { return mode_ == Mode::repeat || (outer_ && outer_->repeats()); }
  /// Throws AutogradError where not all was repeated.
  void check_all_repeated() const;

 private:
  std::vector<PhiloxState>& states_;
  Mode mode_;
  std::size_t next_ = 0;
  Draws* outer_;
};

}  // namespace bytetape::detail
