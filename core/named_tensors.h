#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// Named tensors, in order, such as a state_dict() or the content of a file. A name is a path ("conv1.weight").
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Throws ValueError, in the name of `who`, listing the keys that are repeated in `given` and, if `strict`, the keys
/// that only one of `own` and `given` has. A missing key has the most similar unexpected one beside it. Long lists are
/// cut.
void check_keys(std::string_view who, const NamedTensors& own, const std::vector<std::string>& given, bool strict);

}  // namespace bytetape
