#pragma once
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// Returns advice for the request that ended the run out of memory: checkpoints that would have freed bytes before it,
/// or the reason why none would. Each is a sentence, perhaps followed by a line of code. Empty if no request did.
std::vector<std::string> failure_advice(const Log& log, const DeviceLog& device);

/// The line of code that checkpoints the modules, given by their paths on the ledger.
std::string checkpoint_code(const std::vector<std::string>& modules);

}  // namespace bytetape::memory
