#include "examples/mnist/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <bytetape/core/memory/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

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

/// A bar of at most 24 cells, none where the line has no room.
std::string bar(double part, int room) {
  const int cells = std::min(room, 24);
  if (cells < 4) return "";
  const int full = static_cast<int>(part * cells);
  std::string text = "\x1b[36m";
  for (int i = 0; i < full; ++i) text += "━";
  text += "\x1b[2m";
  for (int i = full; i < cells; ++i) text += "━";
  return text + "\x1b[0m ";
}

std::string grouped(double value) {
  std::string digits = std::to_string(static_cast<long long>(value + 0.5));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

}  // namespace

Progress::Progress(std::string title, std::int64_t total, std::FILE* out)
    : title_(std::move(title)), total_(total), out_(out), live_(is_terminal(out)), start_(Clock::now()) {}

std::string Progress::line(std::int64_t done, const ProgressNumbers& n) const {
  const double part = total_ ? static_cast<double>(done) / static_cast<double>(total_) : 1;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const bool over = done >= total_;
  const int percent = static_cast<int>(100 * part);  // 100 at the end only
  const int left = static_cast<int>(over ? seconds + 0.5 : part > 0 ? seconds / part - seconds + 0.5 : 0);
  const std::string clock = fmt::format("{}:{:02}", left / 60, left % 60);
  const std::string now = memory::format_bytes(n.memory), peak = memory::format_bytes(n.peak_memory);
  const int width = columns(out_) - static_cast<int>(title_.size()) - 3;
  std::string text =
      fmt::format("{:>3} %  loss {:.4f}  acc {:5.2f} %  {:>6} img/s  mem {:>8} (peak {})  {}{}", percent, n.loss,
                  100 * n.accuracy, grouped(n.images_per_s), now, peak, clock, over ? "" : " left");
  if (!live_) return fmt::format("{}  {}", title_, text);
  if (static_cast<int>(text.size()) > width)  // a line that wraps cannot be redrawn
    text = fmt::format("{:>3} %  loss {:.3f}  {:4.1f} %  {}/s  {}, peak {}  {}", percent, n.loss, 100 * n.accuracy,
                       grouped(n.images_per_s), now, peak, clock);
  text.resize(std::min(text.size(), static_cast<std::size_t>(std::max(width, 1))));
  return fmt::format("{}  {}{}", title_, bar(part, width - static_cast<int>(text.size()) - 1), text);
}

void Progress::update(std::int64_t done, const ProgressNumbers& numbers) {
  if (live_) {
    if (Clock::now() - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = Clock::now();
    fmt::print(out_, "\r{}\x1b[K", line(done, numbers));
  } else {
    if (done < next_plain_ || done >= total_) return;
    if (next_plain_ > 0) fmt::print(out_, "{}\n", line(done, numbers));
    next_plain_ += total_ / 4 + 1;
  }
  std::fflush(out_);
}

void Progress::finish(const ProgressNumbers& numbers) {
  fmt::print(out_, "{}{}{}\n", live_ ? "\r" : "", line(total_, numbers), live_ ? "\x1b[K" : "");
  std::fflush(out_);
}

}  // namespace bytetape::examples
