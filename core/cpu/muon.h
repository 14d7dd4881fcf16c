#pragma once
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::cpu {

// See OptimizerKernels.
Plan plan(const MuonDirectionArgs& args);
void muon_direction(const MuonDirectionArgs& args, const Plan& plan, Workspace ws);
void muon_polynomial(const ConstView& gram, const View& square, const std::array<double, 3>& c);

}  // namespace bytetape::cpu
