#pragma once
#include <string>
#include <typeinfo>

namespace bytetape::nn {

/// Returns the name of a type without its namespaces: "Net", "ModuleList<Block>".
std::string class_name(const std::type_info& type);

}  // namespace bytetape::nn
