#pragma once
#include <bytetape/core/memory/log.h>

#include <cstdint>
#include <string>

namespace bytetape::examples {

/// Returns "linear in module 'fc1'", or "the program" if neither op nor module is known.
std::string requester(const memory::Log& log, memory::NameId op, memory::NameId module);
/// Returns "forward of step 3", or "setup, outside any step".
std::string when(std::uint32_t step, memory::Phase phase);

}  // namespace bytetape::examples
