#include "examples/memory_tour/page.h"

#include <bytetape/core/memory/format.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <sstream>

#include "examples/memory_tour/picture.h"

namespace bytetape::examples {
namespace {

using memory::format_exact;

constexpr int width = 100, code_width = 41, peak_width = 12, bar_width = 9;
constexpr std::size_t legend_columns = 5;  // with five columns, the longest names fit
constexpr int curve_width = 80, curve_height = 4;

std::size_t highest_of(const Measurement& found) {
  std::size_t highest = 0;
  for (const Level& level : found.levels) highest = std::max({highest, level.allocated, level.peak});
  return highest;
}

const memory::RoleBytes& drawn(const Level& level, const Look& look) {
  return look.bars_are_peaks ? level.by_role_at_peak : level.by_role;
}

/// Prints a line without its trailing blanks.
void print_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

struct Figures {
  std::string allocated, predicted, pytorch, peak, reserved;
};

/// Formats a line: the left text, padded to the width of code, the figures and the picture. An empty figure takes no
/// column.
std::string columns(const std::string& left, const Figures& f, const std::string& picture) {
  const auto width_of = [](const std::string& figure, int width) { return figure.empty() ? 0 : width; };
  return fmt::format("  {:{}}{:>11}{:>11}{:>{}}{:>{}}{:>12}  {}", left, code_width, f.allocated, f.predicted, f.pytorch,
                     width_of(f.pytorch, 11), f.peak, width_of(f.peak, peak_width), f.reserved, picture);
}

void print_header(const Measurement& found, const Look& look) {
  fmt::print("{}\n", dim(columns("",
                                 {"allocated", "predicted", found.pytorch.empty() ? "" : "PyTorch",
                                  look.has_peaks ? "peak" : "", "reserved"},
                                 look.bars_are_peaks ? "at peak" : "by role")));
}

std::size_t whole_of(const Measurement& found, const Look& look) {
  std::size_t whole = 0;
  for (const Level& level : found.levels) whole = std::max(whole, look.bars_are_peaks ? level.peak : level.allocated);
  return whole;
}

std::string pytorch_figure(const Measurement& found, std::size_t level) {
  if (found.pytorch.empty()) return "";
  const auto bytes = level < found.pytorch.size() ? found.pytorch[level] : std::nullopt;
  return bytes ? format_exact(*bytes) : "·";
}

/// Prints a line of code or a label, and the figures of a level. A long text gets a line of its own.
void print_level(std::string text, const Measurement& all, std::size_t i, const Look& look) {
  const Level &found = all.levels[i], &predicted = all.predicted.at(i);
  if (text.size() > code_width) {
    fmt::print("  {}\n", text);
    text.clear();
  }
  const Figures figures{format_exact(found.allocated), format_exact(predicted.allocated), pytorch_figure(all, i),
                        look.has_peaks ? format_exact(found.peak) : "", format_exact(found.reserved)};
  const int room = bar_width + (look.has_peaks ? 0 : peak_width);
  print_line(columns(text, figures, role_bar(drawn(found, look), whole_of(all, look), room)));
}

void print_legend(const Measurement& found, const Look& look) {
  std::vector<memory::RoleBytes> bars;
  for (const Level& level : found.levels) bars.push_back(drawn(level, look));
  const std::vector<std::string> legend = role_legend(bars);
  for (std::size_t i = 0; i < legend.size(); i += legend_columns) {
    const auto row = std::span(legend).subspan(i, std::min(legend_columns, legend.size() - i));
    fmt::print("  {}\n", fmt::join(row, "   "));
  }
}

/// Prints the code. Beside each line after which statistics were read, prints the figures.
void print_listing(const std::vector<Line>& lines, const Measurement& found, const Look& look) {
  print_header(found, look);
  std::size_t level = 0;
  for (const Line& line : lines) {
    if (!line.is_read) {
      fmt::print("  {}\n", line.code);
      continue;
    }
    print_level(line.code, found, level++, look);
  }
}

void print_table(const Measurement& found, const Look& look) {
  print_header(found, look);
  for (std::size_t i = 0; i < found.levels.size(); ++i) print_level(found.levels[i].label, found, i, look);
}

/// Prints the figures beside the code if each belongs to a line, else the code followed by the figures.
void print_code_and_figures(const Part& part, const Measurement& found) {
  const std::vector<Line> lines = lines_of(part.shown.text);
  const auto reads = std::count_if(lines.begin(), lines.end(), [](const Line& line) { return line.is_read; });
  const Look& look = part.look;
  if (reads == static_cast<std::ptrdiff_t>(found.levels.size())) {
    print_listing(lines, found, look);
  } else {
    if (look.has_code)
      for (const Line& line : lines) fmt::print("  {}\n", line.code);
    if (look.has_code && look.has_rows) fmt::print("\n");
    if (look.has_rows) print_table(found, look);
  }
  if (look.has_rows) print_legend(found, look);
}

void print_area(const std::vector<std::size_t>& values, std::size_t highest) {
  const std::vector<std::string> rows = area(values, highest, curve_width, curve_height);
  for (std::size_t row = 0; row < rows.size(); ++row)
    print_line(fmt::format("  {:>11} {}",
                           row == 0                 ? format_exact(highest)
                           : row + 1 == rows.size() ? "0"
                                                    : "",
                           rows[row]));
}

void print_curve(const Measurement& found, std::size_t highest) {
  fmt::print("\n");
  print_area(allocated_by_event(found.events), highest);
  fmt::print("  {:>11} {}\n", "", dim(phase_band(found.events, curve_width)));
  fmt::print("  {:>11} {}\n", "", dim("allocated, event by event   f forward   b backward   o optimizer"));
}

void print_verdict(const Measurement& found) {
  std::string text = found.is_as_predicted() ? "as predicted" : "NOT as predicted";
  if (!found.events.empty()) text += fmt::format(", in each of {} events", format_exact(found.events.size()));
  if (found.seconds > 0) text += fmt::format("; takes {:.1f} ms", found.seconds * 1e3);
  fmt::print("  {} {}\n", found.is_as_predicted() ? "✓" : "✗", dim(text));
}

}  // namespace

void print_words(const std::string& words) {
  std::istringstream in(words);
  std::string line = " ";
  for (std::string word; in >> word;) {
    if (line.size() + 1 + word.size() > width) {
      fmt::print("{}\n", line);
      line = " ";
    }
    line += " " + word;
  }
  fmt::print("{}\n", line);
}

void print(const Stop& stop, int number, const std::vector<Measurement>& found) {
  const std::string head = fmt::format("{:>2}  {} ", number, stop.title);
  std::string rule;
  for (std::size_t i = head.size(); i < width; ++i) rule += "─";
  fmt::print("\n{} {}\n", bold(head), dim(rule.substr(0, rule.size() - 3)));
  print_words(stop.question);
  std::size_t highest = 0;
  for (const Measurement& m : found) highest = std::max(highest, highest_of(m));
  for (std::size_t i = 0; i < stop.parts.size(); ++i) {
    const Part& part = stop.parts[i];
    fmt::print("\n");
    if (!part.words.empty()) print_words(part.words);
    print_code_and_figures(part, found[i]);
    if (part.look.has_curve) print_curve(found[i], highest);
    if (part.look.has_steps) {
      std::vector<std::size_t> allocated;
      for (const Level& level : found[i].levels) allocated.push_back(level.allocated);
      print_area(allocated, highest);
    }
    print_verdict(found[i]);
  }
  fmt::print("\n");
  print_words(stop.lesson);
}

}  // namespace bytetape::examples
