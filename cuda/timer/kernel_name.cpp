#include "bytetape/cuda/timer/kernel_name.h"

#include <cxxabi.h>

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace bytetape::cuda {
namespace {

constexpr std::size_t longest = 80;
constexpr std::string_view anonymous = "(anonymous namespace)::";

std::string demangled(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? text.get() : mangled;
}

bool is_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Cuts the arguments, which begin at the first parenthesis outside template arguments, and the result before the name.
std::string_view without_signature(std::string_view text) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth > 0) continue;
    if (text.substr(i).starts_with(anonymous))
      i += anonymous.size() - 1;
    else if (text[i] == '(' && i > begin)
      return text.substr(begin, i - begin);
    else if (text[i] == ' ')
      begin = i + 1;
  }
  return text.substr(begin);
}

/// Removes "a::" before names, at every depth, but not "a<b>::".
std::string without_namespaces(std::string_view text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(anonymous)) {
      i += anonymous.size() - 1;
    } else if (text.substr(i).starts_with("::")) {
      if (!kept.empty() && kept.back() == '>') kept += "::";
      while (!kept.empty() && is_of_a_name(kept.back())) kept.pop_back();
      ++i;
    } else if (!text.substr(i).starts_with(" >")) {  // as the demangler writes nested template arguments
      kept += text[i];
    }
  }
  return kept;
}

}  // namespace

std::string kernel_name(const char* mangled) {
  const std::string whole = demangled(mangled);
  std::string name = without_namespaces(without_signature(whole));
  if (name.empty()) name = whole;
  if (name.size() > longest) name.replace(longest - 3, name.npos, "...");
  return name;
}

}  // namespace bytetape::cuda
