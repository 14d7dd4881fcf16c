#include "bytetape/core/device/fault.h"

#include "bytetape/core/error.h"

namespace bytetape {

void throw_fault(const Fault& f) {
  if (f.kind == Fault::Kind::example) fail<ShapeError>("example ", f.value, " of a dataset of ", f.bound);
  if (f.kind == Fault::Kind::index) fail<ValueError>("index ", f.value, " is not in [0, ", f.bound, ")");
  if (f.kind == Fault::Kind::from_end)
    fail<ValueError>("index ", f.value, " is not in [", -f.bound, ", ", f.bound, ")");
  if (f.kind == Fault::Kind::probabilities)
    fail<ValueError>("row ", f.value, " of the probabilities has a negative or non-finite element, or fewer than ",
                     f.bound, " positive ones");
  if (f.kind == Fault::Kind::position)
    fail<ValueError>("position ", f.value, " of a row is not in [0, ", f.bound,
                     "), the positions from which the new tokens fit into the cache");
  if (f.kind == Fault::Kind::other_rank)
    fail<DistributedError>("rank ", f.value, " has computed with an invalid value, so all ranks have skipped the step");
  fail<ValueError>("target ", f.value, " is not in [0, ", f.bound, "), the classes that the logits tell apart");
}

}  // namespace bytetape
