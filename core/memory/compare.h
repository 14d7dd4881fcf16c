#pragma once
#include <string>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// Describes an event: "alloc 512 B (4 requested) at 0+1024, output/temporary of 'net.fc1' by matmul, forward, step 1".
std::string describe(const Event& e);

/// Whether a comparison of logs looks at the names of ops and modules.
enum class Names : bool { ignored, compared };

/// Describes the first difference of two logs, record by record. Empty if they are equal.
std::string first_difference(const std::vector<Event>& a, const std::vector<Event>& b, Names names = Names::compared);

}  // namespace bytetape::memory
