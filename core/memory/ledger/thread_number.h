#pragma once
#include <cstdint>

namespace bytetape::memory {

/// This thread's number, from 1, which no other thread of the process ever has.
std::uint64_t thread_number();

}  // namespace bytetape::memory
