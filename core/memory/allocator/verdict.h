#pragma once
#include <string>

#include "bytetape/core/memory/allocator/out_of_memory.h"

namespace bytetape::memory {

/// Says whether memory was full or fragmented when a request failed, and by how much: "a true shortage: 18.6 MiB are
/// free, 17.4 MiB are missing for this request".
std::string verdict(const Shortage& s);

}  // namespace bytetape::memory
