#include "bytetape/core/named_tensors.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/core/similar_name.h"

namespace bytetape {
namespace {

constexpr std::size_t most_listed = 12;

/// Lists the first names, each with the most similar one of `similar_to`.
std::string listed(const std::vector<std::string>& names, const std::vector<std::string>& similar_to = {}) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_listed); ++i) {
    const std::string similar = most_similar(names[i], similar_to);
    text += (i > 0 ? ", " : "") + names[i] + (similar.empty() ? "" : " (most similar: " + similar + ")");
  }
  if (names.size() > most_listed) text += ", and " + std::to_string(names.size() - most_listed) + " more";
  return text;
}

}  // namespace

void check_keys(std::string_view who, const NamedTensors& own, const std::vector<std::string>& given, bool strict) {
  std::vector<std::string> missing, unexpected, repeated;
  std::set<std::string> of_given, of_own;
  for (const std::string& name : given)
    if (!of_given.insert(name).second) repeated.push_back(name);
  for (const auto& [name, x] : own) {
    of_own.insert(name);
    if (!of_given.contains(name)) missing.push_back(name);
  }
  for (const std::string& name : given)
    if (!of_own.contains(name)) unexpected.push_back(name);
  check<ValueError>(repeated.empty(), who, ": repeated keys: [", listed(repeated), "]");
  check<ValueError>(!strict || (missing.empty() && unexpected.empty()), who, ": missing keys: [",
                    listed(missing, unexpected), "]; unexpected keys: [", listed(unexpected), "]");
}

}  // namespace bytetape
