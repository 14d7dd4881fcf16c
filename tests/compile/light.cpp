// Who includes tensors does not compile the allocator; see `check` beside this file.
#include <bytetape/core/tensor.h>

const auto role = sizeof(bytetape::memory::Role);
const auto allocator = sizeof(bytetape::memory::Allocator);  // refused
const auto block = sizeof(bytetape::memory::Block);          // refused
const auto snapshot = sizeof(bytetape::memory::Snapshot);    // refused
