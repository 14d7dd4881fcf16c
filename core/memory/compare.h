#pragma once
#include <string>
#include <vector>

#include "bytetape/core/memory/ledger/ledger.h"

namespace bytetape::memory {

/// "alloc 512 B (of 4 asked) at 0+1024, output/temporary of 'net.fc1' by matmul, forward, step 1".
std::string describe(const Event& e);

/// Whether the names of ops and modules count where logs are compared.
enum class Names : bool { ignored, compared };

/// Where two logs first differ, in words; empty where they are equal, record by record.
std::string first_difference(const std::vector<Event>& a, const std::vector<Event>& b, Names names = Names::compared);

}  // namespace bytetape::memory
