#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace bytetape::examples {

/// A character for each level, from "▁" to "█" at `peak`; a space only for 0.
std::string sparkline(const std::vector<std::size_t>& levels, std::size_t peak);

/// Columns of the terminal that stdout is, at most `most`; 80 where it is none.
std::size_t terminal_width(std::size_t most);

}  // namespace bytetape::examples
