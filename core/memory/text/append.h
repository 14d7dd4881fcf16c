#pragma once
#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace bytetape::memory {

/// Formats the arguments at the end of `out`.
template <class... Args>
void append(std::string& out, fmt::format_string<Args...> text, Args&&... args) {
  fmt::format_to(std::back_inserter(out), text, std::forward<Args>(args)...);
}

}  // namespace bytetape::memory
