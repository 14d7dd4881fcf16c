#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "examples/memory_tour/measure.h"

namespace bytetape::examples {

/// Return text in bold or dim if stdout is a terminal with colours.
std::string bold(const std::string& text);
std::string dim(const std::string& text);

/// Returns a bar of the roles in `held`. `whole` bytes take `width` characters. Held memory takes at least one.
std::string role_bar(const memory::RoleBytes& held, std::size_t whole, int width);
/// Returns the glyph and name of each role that occurs in any of `bars`.
std::vector<std::string> role_legend(std::span<const memory::RoleBytes> bars);

/// Returns the lines of an area chart of `width` by `height` characters. A column shows the maximum of its values.
std::vector<std::string> area(const std::vector<std::size_t>& values, std::size_t highest, int width, int height);

/// Returns the allocated bytes after each event.
std::vector<std::size_t> allocated_by_event(const std::vector<memory::Event>& events);
/// Returns one letter for each column of area(): the phase of its first event.
std::string phase_band(const std::vector<memory::Event>& events, int width);

}  // namespace bytetape::examples
