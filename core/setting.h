#pragma once
#include <utility>

namespace bytetape::detail {

/// Sets a variable while it lives, then restores the old value.
template <class T>
class Setting {
 public:
  Setting(T& variable, T value) : variable_(variable), previous_(std::exchange(variable, value)) {}
  ~Setting() { variable_ = previous_; }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  T& variable_;
  T previous_;
};

}  // namespace bytetape::detail
