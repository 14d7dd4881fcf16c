#include "examples/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <bytetape/core/memory/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

namespace bytetape::examples {
namespace {

bool is_terminal(std::FILE* out) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(out)) && term && std::string(term) != "dumb";
}

int columns(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

constexpr int fewest_cells = 8, most_cells = 24;

std::string bar(double part, int room) {
  const int cells = std::clamp(room, 0, most_cells);
  const int full = static_cast<int>(part * cells);
  std::string text = "\x1b[36m";
  for (int i = 0; i < full; ++i) text += "━";
  text += "\x1b[2m";
  for (int i = full; i < cells; ++i) text += "━";
  return text + "\x1b[0m";
}

std::string grouped(double value) {
  std::string digits = std::to_string(static_cast<long long>(value + 0.5));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

/// "1:05".
std::string clock(double seconds) {
  const int whole = static_cast<int>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// "72.2/102 MiB".
std::string fraction(const std::string& part, const std::string& whole) {
  const std::size_t space = part.find(' ');
  const bool same_unit = part.substr(space) == whole.substr(whole.find(' '));
  return fmt::format("{:>4}/{}", same_unit ? part.substr(0, space) : part, whole);
}

}  // namespace

Progress::Progress(std::string title, std::int64_t done, std::int64_t total, std::FILE* out)
    : title_(std::move(title)),
      first_(done),
      total_(total),
      next_plain_(done),
      out_(out),
      live_(is_terminal(out)),
      start_(Clock::now()) {}

std::string Progress::line(std::int64_t done, const ProgressNumbers& n) const {
  const double part = total_ ? static_cast<double>(done) / static_cast<double>(total_) : 1;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const bool over = done >= total_;
  const double left =
      done > first_ ? seconds * static_cast<double>(total_ - done) / static_cast<double>(done - first_) : 0;
  const std::string time = !over          ? clock(left) + " left"
                           : seconds < 10 ? fmt::format("in {:.2f} s", seconds)
                                          : "in " + clock(seconds);
  const std::string now = memory::format_bytes(n.memory), peak = memory::format_bytes(n.peak_memory);
  const double loss = std::fabs(n.loss);  // never negative; fabs removes the sign of a NaN
  std::vector<std::string> fields{fmt::format("{:>3} %", static_cast<int>(100 * part)),  // rounded down
                                  fmt::format("loss {:.4f}", loss),
                                  n.figure,
                                  fmt::format("{:>6} {}", grouped(n.rate), n.rate_unit),
                                  fmt::format("mem {:>8} (peak {})", now, peak),
                                  time};
  std::erase(fields, "");
  if (!live_) return fmt::format("{}  {}", title_, fmt::join(fields, "  "));

  fields.back() = fmt::format("{:<9}", time);  // the bar keeps its length to the end
  const int width = columns(out_) - 1 - static_cast<int>(title_.size()) - 4;
  const auto room = [&] {  // columns left for the bar; a line that wraps cannot be redrawn
    return width - static_cast<int>(fmt::formatted_size("{}", fmt::join(fields, "  ")));
  };
  if (room() < fewest_cells)
    fields = {fmt::format("loss {:.3f}", loss), n.figure, fmt::format("{:>5}/s", grouped(n.rate)), fraction(now, peak),
              fields.back()};
  std::erase(fields, "");
  while (fields.size() > 1 && room() < fewest_cells)  // the rate goes first, the time last
    fields.erase(fields.end() - (fields.size() > 3 ? 3 : 2));
  return fmt::format("{}  {}  {}", title_, bar(part, room()), fmt::join(fields, "  "));
}

void Progress::update(std::int64_t done, const std::function<ProgressNumbers()>& numbers) {
  if (live_) {
    if (Clock::now() - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = Clock::now();
    fmt::print(out_, "\r{}\x1b[K", line(done, numbers()));
  } else {
    if (done < next_plain_ || done >= total_) return;
    if (next_plain_ > first_) fmt::print(out_, "{}\n", line(done, numbers()));
    next_plain_ += total_ / 4 + 1;
  }
  std::fflush(out_);
}

void Progress::finish(std::int64_t done, const ProgressNumbers& numbers) {
  fmt::print(out_, "{}{}{}\n", live_ ? "\r" : "", line(done, numbers), live_ ? "\x1b[K" : "");
  std::fflush(out_);
}

}  // namespace bytetape::examples
