#pragma once
#include <string>

#include "bytetape/core/memory/diff.h"
#include "bytetape/core/named_tensors.h"

namespace bytetape {

/// Who keeps the bytes of x, in words, a line each: ops that saved them for backward, with what keeps those in turn up
/// to a tensor that the program holds; the module that they are registered with; those of the tensors `known`, such as
/// {{"loss", loss}} or a module's named_parameters(), that share them or have them as their gradient; and how many
/// others there are besides.
///
///     f32(64, 128) on cpu, 32.0 KiB, saved for backward, allocated by relu in fc1, is kept by
///       linear in fc2, which saved it <- cross_entropy <- tensor 'loss'
///
/// Walks all that was saved on x's device, in the time that takes; no other thread may record or run backward
/// meanwhile. Throws ValueError where x is undefined.
std::string why_alive(const Tensor& x, const NamedTensors& known = {});
/// The same of what grew between two marks: for each of the rows that grew most, who keeps its blocks.
///
///     std::cout << why_alive(memory::diff(before, memory::mark()));
std::string why_alive(const memory::Difference& grown, const NamedTensors& known = {});

}  // namespace bytetape
