#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace bytetape::examples {

/// Returns a character for each level, from "▁" to "█" at `peak`, and a space for 0.
std::string sparkline(const std::vector<std::size_t>& levels, std::size_t peak);

/// Returns the columns of stdout's terminal, or 80 if it is not a terminal, but at most `most`.
std::size_t terminal_width(std::size_t most);

}  // namespace bytetape::examples
