#pragma once
#include <cstddef>
#include <string>

namespace bytetape::memory {

/// "512 B", "9.50 KiB", "1.21 GiB": three significant digits, binary units.
std::string format_bytes(std::size_t bytes);
/// "50,331,648".
std::string format_exact(std::size_t bytes);
/// `part` of `whole` as a bar of at most `width` characters, to an eighth of one: "██████▍". Shows a sliver for every
/// part above 0; empty where `whole` is 0.
std::string format_bar(std::size_t part, std::size_t whole, int width);
/// "66 %", "<1 %"; "0 %" only for 0.
std::string format_share(std::size_t part, std::size_t whole);

}  // namespace bytetape::memory
