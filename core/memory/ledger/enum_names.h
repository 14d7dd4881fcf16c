#pragma once
#include <string>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// Returns to_string() of the first `count` values of Role, Phase or EventKind. Files list them to explain their
/// numbers.
template <class Enum>
std::vector<std::string> enum_names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(to_string(static_cast<Enum>(i)));
  return names;
}

}  // namespace bytetape::memory
