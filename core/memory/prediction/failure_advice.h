#pragma once
#include <string>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// Returns advice for the request that ended the run out of memory: checkpoints that would have freed bytes before it,
/// or the reason why none would. Each is a sentence, perhaps followed by a line of code. Empty if no request did.
std::vector<std::string> failure_advice(const Log& log, const DeviceLog& device);

/// The paths in a sentence: "stem, '3 BasicBlock'". Names with classes are quoted, because a number may begin them.
std::string module_list(const std::vector<std::string>& modules);
/// The line of code that checkpoints the modules, given by their paths on the ledger.
std::string checkpoint_code(const std::vector<std::string>& modules);

}  // namespace bytetape::memory
