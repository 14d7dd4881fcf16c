#pragma once
#include <functional>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/diff.h"

namespace bytetape::memory {

/// A C++ scope left more memory than it found. what() names by module, op and role what was left.
class LeakError : public Error {
 public:
  explicit LeakError(const Difference& left);
};

/// Finds what a C++ scope leaves behind, for tests: where more is held at its end than when it was made, throws
/// LeakError. Made first, it sees the scope's own variables end:
///
///     TEST(Model, LeaksNothing) {
///       step();  // the first one makes gradients and the optimizer's state
///       const memory::Guard guard;
///       step();
///     }
///
/// Where an exception leaves the scope it says nothing.
class Guard {
 public:
  /// What is done in place of throwing.
  using Report = std::function<void(const Difference& left)>;

  [[nodiscard]] explicit Guard(Device device = default_device(), Report report = {});
  /// The same of any memory, such as pinned_for(device)->allocator().
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
