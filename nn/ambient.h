#pragma once
#include <type_traits>

namespace bytetape::detail {

struct SeenModel;

/// The modes of a thread that nn reads. Each is set by a scope, which restores the old value at its end.
/// docs/architecture.md lists the modes of all folders.
struct NnAmbient {
  /// Where MemoryOptions::apply() writes down its model. Set by fit() while it predicts a program. Default: null,
  /// nowhere.
  SeenModel* seen_model = nullptr;
};
// Access to a thread-local variable with a destructor would cost a call.
static_assert(std::is_trivially_destructible_v<NnAmbient>);

inline constinit thread_local NnAmbient nn_ambient{};

}  // namespace bytetape::detail
