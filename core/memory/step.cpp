#include "bytetape/core/memory/step.h"

#include "bytetape/core/backend.h"

namespace bytetape::memory {

Step::Step(Device device, std::uint32_t number)
    : allocator_(allocator(device)), number_(allocator_.begin_sole_step(number)) {}

}  // namespace bytetape::memory
