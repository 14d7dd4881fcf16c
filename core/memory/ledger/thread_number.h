#pragma once
#include <cstdint>

namespace bytetape::memory {

/// This thread's number, from 1. No other thread of the process ever has it.
std::uint64_t thread_number();

}  // namespace bytetape::memory
