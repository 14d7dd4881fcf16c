#pragma once
#include <string>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// Returns the totals as a JSON object, without the bytes by role at the peak.
std::string to_json(const Statistics& s);
/// Reads a result of to_json().
/// Throws ValueError if the text is not one.
Statistics statistics_from_json(const std::string& text);

}  // namespace bytetape::memory
