#include "examples/memory_tour/listing.h"

#include <utility>

namespace bytetape::examples {
namespace {

/// Breaks text into lines, at statements and braces outside of parentheses.
class Breaker {
 public:
  std::vector<Line> lines(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char next = i + 1 < text.size() ? text[i + 1] : '\0';
      take(text[i], next);
    }
    return std::move(lines_);
  }

 private:
  void take(char c, char next) {
    if (line_.empty() && c == ' ') return;
    if (line_.empty() && c == '}') --indent_;
    line_ += c;
    if (c == '"') in_string_ = !in_string_;
    if (in_string_) return;
    if (c == '(') ++depth_;
    if (c == ')') --depth_;
    if (depth_ > 0) return;
    const bool opens = c == '{' && next != '}';
    if (opens || c == ';' || (line_ == "}" && next != ';')) end_line();
    if (opens) ++indent_;
  }

  void end_line() {
    const std::string code = std::exchange(line_, "");
    if (!code.starts_with("at("))
      lines_.push_back({std::string(static_cast<std::size_t>(2 * indent_), ' ') + code});
    else if (lines_.empty())
      lines_.push_back({"", true});
    else
      lines_.back().is_read = true;
  }

  std::vector<Line> lines_;
  std::string line_;
  int indent_ = 0, depth_ = 0;
  bool in_string_ = false;
};

}  // namespace

std::vector<Line> lines_of(const std::string& lambda) {
  const std::size_t first = lambda.find('{') + 1;
  return Breaker().lines(lambda.substr(first, lambda.rfind('}') - first));
}

}  // namespace bytetape::examples
