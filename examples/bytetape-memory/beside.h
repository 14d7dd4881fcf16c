#pragma once
#include <string>

#include "examples/bytetape-memory/times.h"

namespace bytetape::examples {

/// Prints the rows of the steps `options.step` and `options.beside` side by side, the largest change of time first.
/// Times are the device's if both steps have device times, else the host's. Returns the exit status.
/// Throws ValueError if the recording lacks one of the steps, the table has no column `options.sort`, or all is
/// predicted.
int beside(const std::string& path, const TimesOptions& options);

}  // namespace bytetape::examples
