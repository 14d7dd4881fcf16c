#include "bytetape/cuda/optim/muon.h"

namespace bytetape::cuda {

// A partial sum of squares for each block.
Plan plan_muon_direction(const MuonDirectionArgs& args) {
  std::int64_t chunks = 0;
  for (const MuonSlot& s : args.slots) chunks += muon_chunks(s);
  return {.workspace = static_cast<std::size_t>(chunks) * sizeof(double)};
}

}  // namespace bytetape::cuda
