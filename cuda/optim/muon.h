#pragma once
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::cuda {

/// The elements of a direction that one block handles.
inline constexpr std::int64_t muon_chunk = 2048;
inline std::int64_t muon_chunks(const MuonSlot& s) { return (s.momentum_buffer.numel() + muon_chunk - 1) / muon_chunk; }

// Implement the entries of OptimizerKernels. muon_plan.cpp has the plan.
Plan plan_muon_direction(const MuonDirectionArgs& args);
void muon_direction(const MuonDirectionArgs& args, const Plan& plan, Workspace ws);
void muon_polynomial(const ConstView& gram, const View& square, const std::array<double, 3>& c);

}  // namespace bytetape::cuda
