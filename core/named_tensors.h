#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Tensors with names, in an order: a module's state_dict(), what is in a file. The name is a path ("conv1.weight").
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Throws ValueError, in the name of `who`, listing every key that is repeated among `given` and, where `strict`, every
/// one that `own` has and `given` lacks, and the other way round.
void check_keys(std::string_view who, const NamedTensors& own, const std::vector<std::string>& given, bool strict);

}  // namespace bytetape
