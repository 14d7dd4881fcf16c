#include "bytetape/core/fault.h"

#include "bytetape/core/error.h"

namespace bytetape {

void throw_fault(const Fault& f) {
  fail<ValueError>("target ", f.value, " is not in [0, ", f.bound, "), the classes that the logits tell apart");
}

}  // namespace bytetape
