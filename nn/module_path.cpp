#include "bytetape/nn/module_path.h"

#include <regex>

namespace bytetape::nn {

std::string path_without_classes(const std::string& path) {
  static const std::regex numbered("(^|\\.)([0-9]+) [^.]*");
  return std::regex_replace(path, numbered, "$1$2");
}

bool is_below(const std::string& inner, const std::string& outer) {
  return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.';
}

}  // namespace bytetape::nn
