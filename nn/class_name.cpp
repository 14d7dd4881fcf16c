#include "bytetape/nn/class_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace bytetape::nn {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace

std::string class_name(const std::type_info& type) {
  const std::string full = demangled(type.name());
  std::string out;
  std::vector<std::size_t> starts{0};  // where the current name begins in `out`, and the templates around it
  int parentheses = 0;                 // depth in "(anonymous namespace)", or in the arguments of a function
  for (std::size_t i = 0; i < full.size(); ++i) {
    const char c = full[i];
    if (c == '(') ++parentheses;
    if (c == ')') --parentheses;
    if (parentheses == 0 && std::string_view(full).substr(i).starts_with("::")) {
      out.resize(starts.back());
      ++i;
      continue;
    }
    if (parentheses == 0 && c == '>') starts.pop_back();
    out += c;
    if (parentheses == 0 && c == '<') starts.push_back(out.size());
    if (parentheses == 0 && out.ends_with(", ")) starts.back() = out.size();
  }
  return out;
}

}  // namespace bytetape::nn
