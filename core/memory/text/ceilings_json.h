#pragma once
#include "bytetape/core/memory/ceilings.h"
#include "bytetape/core/memory/text/json.h"

namespace bytetape::memory {

/// Returns {"device", "processor", "bytes_per_s", "flop_per_s": {"f32", ...}}.
Json ceilings_json(const Ceilings& c);
/// Returns the ceilings of such an object.
/// Throws ValueError if a field is missing, of another type, or not positive.
Ceilings ceilings_from_json(const Json& json);

/// Returns the text of a file of ceilings.
std::string text_of_ceilings(const std::vector<Ceilings>& ceilings);
/// Parses the text of a file of ceilings.
/// Throws ValueError if `content` is not JSON with an array 'ceilings', or the array is empty or has an invalid entry.
std::vector<Ceilings> parse_ceilings(const std::string& content);

}  // namespace bytetape::memory
