#pragma once
#include <type_traits>

namespace bytetape::detail {

struct SeenModel;
class Cloning;

/// The thread-local modes of nn. A scope sets each mode and restores the old value at its end.
/// docs/architecture.md lists the modes of all folders.
struct NnAmbient {
  /// Where MemoryOptions::apply() records its model. fit() sets this while it predicts a program.
  /// Default: null, nothing is recorded.
  SeenModel* seen_model = nullptr;
  /// The clone() that runs, for the copy constructors of modules and parameters. Set by Cloning. Default: null, none.
  Cloning* cloning = nullptr;
};
// A destructor would add a function call to each access of the thread-local variable.
static_assert(std::is_trivially_destructible_v<NnAmbient>);

inline constinit thread_local NnAmbient nn_ambient{};

}  // namespace bytetape::detail
