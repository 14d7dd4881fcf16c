#pragma once
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace bytetape::memory {

using Json = nlohmann::ordered_json;

/// Returns a limit in bytes as JSON. No limit is null.
inline Json limit_json(std::size_t bytes) {
  return bytes == std::numeric_limits<std::size_t>::max() ? Json() : Json(bytes);
}
/// Formats JSON. A name may hold any bytes, and invalid UTF-8 becomes U+FFFD.
inline std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace bytetape::memory
