#include "bytetape/core/named_tensors.h"

#include <set>

#include "bytetape/core/error.h"

namespace bytetape {

void check_keys(std::string_view who, const NamedTensors& own, const std::vector<std::string>& given, bool strict) {
  std::string missing, unexpected, repeated;
  const auto list = [](std::string& names, const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  std::set<std::string> of_given, of_own;
  for (const std::string& name : given)
    if (!of_given.insert(name).second) list(repeated, name);
  for (const auto& [name, x] : own) {
    of_own.insert(name);
    if (!of_given.contains(name)) list(missing, name);
  }
  for (const std::string& name : given)
    if (!of_own.contains(name)) list(unexpected, name);
  check<ValueError>(repeated.empty(), who, ": repeated keys: [", repeated, "]");
  check<ValueError>(!strict || (missing.empty() && unexpected.empty()), who, ": missing keys: [", missing,
                    "]; unexpected keys: [", unexpected, "]");
}

}  // namespace bytetape
