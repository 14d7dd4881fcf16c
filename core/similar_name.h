#pragma once
#include <string>
#include <vector>

namespace bytetape {

/// Returns the candidate that is most similar to `name`, or "" if none is about two thirds the same. Components that
/// only one of the two names has, such as a prefix "model.", hardly count.
std::string most_similar(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace bytetape
