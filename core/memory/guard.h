#pragma once
#include <functional>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/diff.h"

namespace bytetape::memory {

/// Thrown if a C++ scope left more memory than it found. what() names the module, op and role of what was left.
class LeakError : public Error {
 public:
  explicit LeakError(const Difference& left);
};

/// Finds leaks of a C++ scope, for tests. The destructor throws LeakError if more is held than at the construction.
/// Construct the guard first, so that the scope's other variables are destroyed before it:
///
///     TEST(Model, LeaksNothing) {
///       step();  // the first one makes gradients and the optimizer's state
///       const memory::Guard guard;
///       step();
///     }
///
/// The guard does nothing if an exception leaves the scope.
class Guard {
 public:
  /// A function to call instead of throwing.
  using Report = std::function<void(const Difference& left)>;

  [[nodiscard]] explicit Guard(Device device = default_device(), Report report = {});
  /// The same for any memory, such as pinned_for(device)->allocator().
  [[nodiscard]] explicit Guard(const Allocator& allocator, Report report = {});
  ~Guard() noexcept(false);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  const Allocator& allocator_;
  const Report report_;
  const Holdings before_;
  const int exceptions_;
};

}  // namespace bytetape::memory
