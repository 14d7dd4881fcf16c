#pragma once
#include <string>

#include "bytetape/core/memory/diff.h"
#include "bytetape/core/named_tensors.h"

namespace bytetape {

/// Returns which objects keep the memory of x alive, one per line:
/// - ops that saved it for backward, with the chain of their owners up to a tensor that the program holds,
/// - the owner by its role: a module's parameter or buffer, a leaf whose gradient it is, or an optimizer,
/// - tensors of `known`, such as {{"loss", loss}} or named_parameters(), that share it or have it as gradient,
/// - the number of other tensors and handles.
///
///     f32(64, 128) on cpu, 32.0 KiB, saved for backward, allocated by relu in fc1, is kept by
///       linear in fc2, which saved it <- cross_entropy <- tensor 'loss'
///
/// Takes time proportional to all saved tensors on x's device. No other thread may record ops or run backward during
/// the call.
/// Throws ValueError if x is undefined.
std::string why_alive(const Tensor& x, const NamedTensors& known = {});
/// Returns the owners of memory that grew between two marks, for the five rows of `grown` that grew most.
///
///     std::cout << why_alive(memory::diff(before, memory::mark()));
std::string why_alive(const memory::Difference& grown, const NamedTensors& known = {});

}  // namespace bytetape
