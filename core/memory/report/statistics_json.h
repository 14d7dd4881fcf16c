#pragma once
#include <string>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// Totals as a JSON object, but for what was held at the peak.
std::string to_json(const Statistics& s);
/// What to_json() told. Throws ValueError where it is not that.
Statistics statistics_from_json(const std::string& text);

}  // namespace bytetape::memory
