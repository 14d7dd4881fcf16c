#include "examples/bytetape-memory/sparkline.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace bytetape::examples {

std::string sparkline(const std::vector<std::size_t>& levels, std::size_t peak) {
  constexpr std::array<const char*, 8> eighths{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (std::size_t level : levels) {
    const double share = peak ? static_cast<double>(level) / static_cast<double>(peak) : 0;
    line += level ? eighths[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))] : " ";
  }
  return line;
}

std::size_t terminal_width(std::size_t most) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::min<std::size_t>(most, 80);
  return std::min<std::size_t>(most, size.ws_col);
}

}  // namespace bytetape::examples
