#include "bytetape/core/kernels/collective.h"

namespace bytetape {

const char* name_of(Collective c) {
  constexpr const char* text[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                  "broadcast",  "send",           "recv",       "barrier"};
  return text[static_cast<int>(c)];
}

const char* name_of(ReduceOp op) {
  constexpr const char* text[] = {"sum", "average", "min", "max", "product"};
  return text[static_cast<int>(op)];
}

}  // namespace bytetape
