#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace bytetape::memory {

/// Formats bytes in binary units with three significant digits: "512 B", "9.50 KiB", "1.21 GiB".
std::string format_bytes(std::size_t bytes);
/// Formats a time with three significant digits: "640 ns", "12.3 ms", "4.56 s".
std::string format_time(std::uint64_t nanoseconds);
/// Formats a number with thousands separators: "50,331,648".
std::string format_exact(std::size_t bytes);
/// Draws `part` of `whole` as a bar of at most `width` characters, to an eighth of a character: "██████▍". Parts above
/// 0 show at least a sliver. Empty if `whole` is 0.
std::string format_bar(std::size_t part, std::size_t whole, int width);
/// Formats `part` of `whole` as a percentage: "66 %", "<1 %". "0 %" only if `part` is 0.
std::string format_share(std::size_t part, std::size_t whole);

}  // namespace bytetape::memory
