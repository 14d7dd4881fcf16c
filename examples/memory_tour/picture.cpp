#include "examples/memory_tour/picture.h"

#include <bytetape/core/memory/replay.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace bytetape::examples {
namespace {

/// The glyph and the colour of a role. Roles can be told apart without colours too.
struct Paint {
  const char *glyph, *colour;
};
constexpr std::array<Paint, memory::role_count> paints{{{"█", "34"},    // parameter
                                                        {"▙", "94"},    // autocast copy
                                                        {"▓", "33"},    // gradient
                                                        {"▒", "35"},    // optimizer state
                                                        {"▚", "36"},    // input
                                                        {"░", "32"},    // saved for backward
                                                        {"·", "37"},    // output/temporary
                                                        {"×", "31"},    // workspace
                                                        {"▞", "93"},    // key-value cache
                                                        {"≈", "95"}}};  // communication

bool has_colours() {
  static const bool has = [] {
    const char* term = std::getenv("TERM");
    return isatty(fileno(stdout)) && !std::getenv("NO_COLOR") && term && std::string(term) != "dumb";
  }();
  return has;
}
std::string painted(const char* colour, const std::string& text) {
  return has_colours() ? std::string("\x1b[") + colour + "m" + text + "\x1b[0m" : text;
}

std::size_t column_begin(int column, std::size_t n, int width) {
  return static_cast<std::size_t>(column) * n / static_cast<std::size_t>(width);
}

}  // namespace

std::string bold(const std::string& text) { return painted("1", text); }
std::string dim(const std::string& text) { return painted("2", text); }

std::string role_bar(const memory::RoleBytes& held, std::size_t whole, int width) {
  const auto all = static_cast<double>(std::accumulate(held.begin(), held.end(), std::size_t{0}));
  if (all == 0) return "";
  const double cells = std::max(1.0, std::round(all * width / static_cast<double>(whole)));
  std::string bar;
  double sum = 0;
  long drawn = 0;
  for (std::size_t r = 0; r < held.size(); ++r) {
    sum += static_cast<double>(held[r]);
    std::string part;
    for (const long end = std::lround(sum / all * cells); drawn < end; ++drawn) part += paints[r].glyph;
    if (!part.empty()) bar += painted(paints[r].colour, part);
  }
  return bar;
}

std::vector<std::string> role_legend(std::span<const memory::RoleBytes> bars) {
  std::vector<std::string> legend;
  for (std::size_t r = 0; r < paints.size(); ++r)
    if (std::any_of(bars.begin(), bars.end(), [r](const memory::RoleBytes& held) { return held[r] > 0; }))
      legend.push_back(painted(paints[r].colour, paints[r].glyph) + " " + to_string(static_cast<memory::Role>(r)));
  return legend;
}

std::vector<std::string> area(const std::vector<std::size_t>& values, std::size_t highest, int width, int height) {
  constexpr const char* eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<std::string> rows(static_cast<std::size_t>(height));
  for (int column = 0; column < width && !values.empty(); ++column) {
    const std::size_t begin = column_begin(column, values.size(), width);
    const std::size_t end = std::max(begin + 1, column_begin(column + 1, values.size(), width));
    const std::size_t value = *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                                values.begin() + static_cast<std::ptrdiff_t>(end));
    const double share = static_cast<double>(value) / static_cast<double>(std::max<std::size_t>(highest, 1));
    const auto filled = static_cast<int>(std::lround(share * 8 * height));
    for (int row = 0; row < height; ++row)
      rows[static_cast<std::size_t>(row)] += eighths[std::clamp(filled - 8 * (height - 1 - row), 0, 8)];
  }
  return rows;
}

std::vector<std::size_t> allocated_by_event(const std::vector<memory::Event>& events) {
  memory::Replay books;
  std::vector<std::size_t> allocated;
  for (const memory::Event& e : events) {
    books.apply(e);
    allocated.push_back(books.allocated());
  }
  return allocated;
}

std::string phase_band(const std::vector<memory::Event>& events, int width) {
  std::string band;
  for (int column = 0; column < width && !events.empty(); ++column)
    band += to_string(events[column_begin(column, events.size(), width)].phase)[0];
  std::replace(band.begin(), band.end(), 's', ' ');  // setup
  band.erase(band.find_last_not_of(' ') + 1);
  return band;
}

}  // namespace bytetape::examples
