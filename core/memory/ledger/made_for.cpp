#include "bytetape/core/memory/ledger/made_for.h"

#include <string>

namespace bytetape::memory {

NameId MadeFor::name_of_tensor(DType dtype, const Shape& shape) {
  std::string name = to_string(dtype);
  char separator = ' ';
  for (const std::int64_t size : shape) {
    name += separator + std::to_string(size);
    separator = 'x';
  }
  return intern(name);
}

}  // namespace bytetape::memory
